//! What happens to an object on its way into the cluster: defaults, the finalizer, and refusals that say what to do.

use std::time::Instant;

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{TestCluster, TestNamespace, crds, uid, version, webservice};

const NO_IMAGE: &str =
    "{apiVersion: apps.labhub.io/v1, kind: WebService, metadata: {name: checkout}, spec: {replicas: 2}}";
const MINIMAL: &str = "{apiVersion: apps.labhub.io/v1, kind: WebService, metadata: {name: checkout}, spec: {image: 'nginx:1.27'}}";

#[tokio::test]
async fn an_object_without_an_image_is_refused_by_the_name_of_the_field() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;

    let refused = ns.kubectl(["apply", "-f", "-"]).input(NO_IMAGE).await.exits(1);
    assert!(refused.stderr.contains("spec.image"), "{refused}");

    let status = ns.webservices().rejects(webservice("checkout").spec("image", Value::Null)).await;
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
}

#[tokio::test]
async fn an_image_alone_is_completed_and_soon_ready() {
    let ns = TestNamespace::with_operator().await;

    let applied = Instant::now();
    ns.kubectl(["apply", "-f", "-"]).input(MINIMAL).await.succeeds();
    let stored = ns.await_ready("checkout").await;
    println!("Ready {:?} after kubectl apply was started", applied.elapsed());

    assert_eq!(stored["spec"], json!({"image": "nginx:1.27", "replicas": 1, "tier": "dev"}));
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]));
    let shown = ns.kubectl(["get", "ws", "checkout"]).await.succeeds().stdout;
    let [header, row] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
    let columns = |line: &str| line.split_whitespace().take(6).map(ToOwned::to_owned).collect::<Vec<_>>();
    assert_eq!(columns(header), ["NAME", "READY", "REASON", "IMAGE", "REPLICAS", "TIER"]);
    assert_eq!(columns(row), ["checkout", "True", "Reconciled", "nginx:1.27", "1", "dev"]);
}

#[tokio::test]
async fn without_any_rules_in_the_crd_the_webhook_alone_completes_and_refuses() {
    let cluster = TestCluster::private().await;
    cluster.install(crds::without_rules()).await;
    let ns = cluster.namespace().await;
    let bad =
        webservice("checkout").spec("image", "").replicas(-1).tier("Not A Label").depends_on(["checkout"]);
    // The schema lets everything pass.
    let stored = ns.webservices().accepts(bad.clone()).await;
    assert_eq!(stored["spec"]["tier"], "Not A Label");
    let _webhook = ns.start_webhook().await;

    let completed = ns.webservices().create(webservice("minimal")).await;
    assert_eq!(completed["spec"], json!({"image": "nginx:1.27", "replicas": 1, "tier": "dev"}));
    assert_eq!(completed["metadata"]["finalizers"], json!([FINALIZER]));

    let refusal = ns.webservices().rejects(bad).await;
    assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
    let causes = refusal.details.map(|details| details.causes).unwrap_or_default();
    for field in ["spec.image", "spec.replicas", "spec.tier", "spec.dependsOn[0].name"] {
        assert!(refusal.message.contains(field), "{field} is missing in {}", refusal.message);
        assert!(causes.iter().any(|cause| cause.field == field), "{field} is missing in {causes:?}");
    }
    for spec in [json!({}), Value::Null] {
        let refusal =
            ns.webservices().rejects(webservice("checkout").edit(|object| object["spec"] = spec)).await;
        assert!(refusal.code == 422 && refusal.message.contains("spec.image"), "{refusal}");
    }
}

#[tokio::test]
async fn while_the_webhook_is_away_the_schema_completes_and_the_controller_adds_the_finalizer() {
    let ns = TestNamespace::new().await;
    let stored = ns.webservices().create(webservice("checkout")).await;
    assert_eq!(stored["spec"], json!({"image": "nginx:1.27", "replicas": 1, "tier": "dev"}));
    assert!(stored["metadata"]["finalizers"].is_null());

    let _controller = ns.start_controller().await;

    let ready = ns.await_ready("checkout").await;
    assert_eq!(ready["metadata"]["finalizers"], json!([FINALIZER]));
}

#[tokio::test]
async fn while_the_webhook_is_away_the_schema_refuses_what_cannot_be_reconciled() {
    let ns = TestNamespace::new().await;
    for (object, field) in [
        (webservice("a").spec("image", Value::Null), "spec.image"),
        (webservice("a").image(" "), "spec.image"),
        (webservice("a").image("NGINX"), "spec.image"),
        (webservice("a").replicas(-1), "spec.replicas"),
        (webservice("a").tier("Prod"), "spec.tier"),
        (webservice("a").depends_on(["a"]), "spec.dependsOn"),
        (webservice("a").depends_on(["b", "b"]), "spec.dependsOn"),
        (webservice("a.b"), "metadata.name"),
    ] {
        let object: Value = object.into();
        let refusal = ns.webservices().rejects(object.clone()).await;
        assert!(refusal.code == 422 && refusal.message.contains(field), "{object} is refused by: {refusal}");
    }
}

#[tokio::test]
async fn a_webhook_that_is_registered_but_down_holds_up_creations_and_no_deletions() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.webhook.process().kill().await;

    let refusal = ns.webservices().rejects(webservice("search")).await;
    assert!(refusal.message.contains("validate.webservices.apps.labhub.io"), "{refusal}");
    ns.webservices().delete("checkout").await;
    ns.webservices().await_gone("checkout").await;
}

#[tokio::test]
async fn the_finalizer_is_added_beside_those_of_others_and_never_twice() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let finalizers =
        async |object: Value| ns.webservices().create(object).await["metadata"]["finalizers"].clone();

    assert_eq!(finalizers(webservice("a1").into()).await, json!([FINALIZER]));
    assert_eq!(finalizers(webservice("a2").finalizers([]).into()).await, json!([FINALIZER]));
    assert_eq!(
        finalizers(webservice("a3").finalizers(["x.io/keep"]).into()).await,
        json!(["x.io/keep", FINALIZER])
    );
    assert_eq!(finalizers(webservice("a4").finalizers([FINALIZER]).into()).await, json!([FINALIZER]));
}

#[tokio::test]
async fn a_finalizer_that_is_listed_twice_does_not_hold_the_object() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout").finalizers([FINALIZER, FINALIZER])).await;
    ns.await_ready("checkout").await;
    ns.webservices().delete("checkout").await;
    ns.webservices().await_gone("checkout").await;
}

#[tokio::test]
async fn a_missing_empty_or_null_spec_is_refused_for_its_image() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    for spec in ["", ", spec: {}", ", spec: null"] {
        let manifest =
            format!("{{apiVersion: apps.labhub.io/v1, kind: WebService, metadata: {{name: a}}{spec}}}");
        let refused = ns.kubectl(["create", "-f", "-"]).input(&manifest).await.exits(1);
        assert!(refused.stderr.contains("spec.image"), "{manifest}: {refused}");
        assert!(!refused.stderr.contains("InternalError"), "{manifest}: {refused}");
    }
}

#[tokio::test]
async fn replicas_of_the_wrong_type_or_size_are_refused_by_the_name_of_the_field() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let wrong = [
        json!("3"),
        json!(1.5),
        json!(-1),
        json!(2_147_483_648_i64),
        json!(9_007_199_254_740_993_i64),
        json!(true),
        json!([]),
        json!({}),
    ];
    for replicas in wrong {
        let refusal = ns.webservices().rejects(webservice("a").spec("replicas", replicas.clone())).await;
        let is_clear = (400..500).contains(&refusal.code) && refusal.message.contains("spec.replicas");
        assert!(is_clear, "{replicas} is refused by: {refusal}");
    }
    for replicas in [0, 2_147_483_647] {
        let stored = ns.webservices().accepts(webservice("a").replicas(replicas)).await;
        assert_eq!(stored["spec"]["replicas"], replicas);
    }
}

#[tokio::test]
async fn what_was_given_is_never_rewritten() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let stored = ns.webservices().create(webservice("checkout").replicas(0).tier("prod")).await;
    assert_eq!(stored["spec"], json!({"image": "nginx:1.27", "replicas": 0, "tier": "prod"}));
}

#[tokio::test]
async fn a_generated_name_is_completed_like_any_other() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let unnamed = webservice("x").edit(|object| object["metadata"] = json!({"generateName": "w-"}));
    let stored = ns.webservices().create(unnamed).await;
    assert_eq!(
        (&stored["spec"]["tier"], &stored["metadata"]["finalizers"]),
        (&json!("dev"), &json!([FINALIZER]))
    );
}

#[tokio::test]
async fn labels_annotations_and_identical_applies_pass() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    ns.kubectl(["apply", "-f", "-"]).input(MINIMAL).await.succeeds();
    ns.kubectl(["label", "ws", "checkout", "team=shop"]).await.succeeds();
    ns.kubectl(["annotate", "ws", "checkout", "note=hello"]).await.succeeds();
    let again = ns.kubectl(["apply", "-f", "-"]).input(MINIMAL).await.succeeds();
    assert!(again.stdout.contains("unchanged"), "{again}");
}

#[tokio::test]
async fn a_dry_run_shows_what_would_be_stored_and_stores_nothing() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let arguments = ["apply", "-f", "-", "--dry-run=server", "-o", "json"];
    let shown = ns.kubectl(arguments).input(MINIMAL).await.succeeds().json();
    assert_eq!(shown["spec"], json!({"image": "nginx:1.27", "replicas": 1, "tier": "dev"}));
    assert_eq!(shown["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(ns.webservices().find("checkout").await, None);
}

#[tokio::test]
async fn what_was_completed_shows_in_no_diff_and_leads_to_no_further_write() {
    let ns = TestNamespace::with_operator().await;
    let apply = ["apply", "--server-side", "-f", "-"];
    ns.kubectl(apply).input(MINIMAL).await.succeeds();
    let settled = ns.await_ready("checkout").await;

    ns.kubectl(["diff", "--server-side", "-f", "-"]).input(MINIMAL).await.succeeds();
    for _ in 0..5 {
        ns.kubectl(apply).input(MINIMAL).await.succeeds();
    }

    assert_eq!(version(&ns.webservices().get("checkout").await), version(&settled));
}

#[tokio::test]
async fn two_managers_can_apply_the_same_without_a_conflict() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    for manager in ["--field-manager=m1", "--field-manager=m2"] {
        ns.kubectl(["apply", "--server-side", manager, "-f", "-"]).input(MINIMAL).await.succeeds();
    }
}

#[tokio::test]
async fn a_finalizer_that_is_taken_from_a_deleted_object_does_not_come_back() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.webservices().delete("checkout").await;
    ns.webservices().merge("checkout", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(ns.webservices().find("checkout").await, None);
}

#[tokio::test]
async fn a_field_of_a_later_version_survives_the_webhook_and_the_controller() {
    let cluster = TestCluster::private().await;
    cluster.install(crds::with_a_later_field("note")).await;
    let ns = cluster.namespace().await;
    let _webhook = ns.start_webhook().await;
    let _controller = ns.start_controller().await;

    ns.webservices().create(webservice("checkout").spec("note", "keep")).await;
    assert_eq!(ns.await_ready("checkout").await["spec"]["note"], "keep");
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 4}})).await;
    assert_eq!(ns.await_ready("checkout").await["spec"]["note"], "keep");
}

#[tokio::test]
async fn replacing_an_object_by_an_old_copy_restores_what_the_copy_lacks() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    let stored = ns.await_ready("checkout").await;

    let bare =
        webservice("checkout").edit(|object| object["metadata"]["resourceVersion"] = json!(version(&stored)));
    let replaced = ns.webservices().try_replace(bare.clone()).await.unwrap();
    assert_eq!(uid(&replaced), uid(&stored));
    assert_eq!(replaced["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(replaced["spec"], stored["spec"]);

    ns.webservices().merge("checkout", json!({"spec": {"replicas": 2}})).await;
    let outdated = ns.webservices().try_replace(bare).await.unwrap_err();
    assert_eq!(outdated.code, 409, "{outdated}");
}
