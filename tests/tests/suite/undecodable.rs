//! Objects that no rule of today would let in, but that are there: each is told of by itself, and none stands in the way of
//! another.

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{
    OperatedNamespace, TestCluster, TestNamespace, WebServiceBuilder, condition, crds, eventually, webservice,
};

/// Objects that cannot be reconciled, each with the field that is wrong.
fn bad() -> [(Value, &'static str); 4] {
    let odd = |name: &str, spec: Value| webservice(name).edit(|object| object["spec"] = spec).into();
    [
        (
            webservice("no-spec").edit(|object| _ = object.as_object_mut().unwrap().remove("spec")).into(),
            "spec.image",
        ),
        (odd("no-object", json!({"replicas": 2})), "spec.image"),
        (odd("words", json!({"image": "nginx:1.27", "replicas": "two"})), "spec.replicas"),
        (odd("number", json!({"image": "nginx:1.27", "tier": 7})), "spec.tier"),
    ]
}

/// A namespace of a private cluster whose CRD lets anything in, with all the bad objects and a good one.
async fn with_bad_objects() -> TestNamespace {
    let cluster = TestCluster::private().await;
    cluster.install(crds::anything_goes()).await;
    let ns = cluster.namespace().await;
    for (object, _) in bad() {
        ns.webservices().create(object).await;
    }
    ns.webservices().create(webservice("good")).await;
    ns
}

#[tokio::test]
async fn a_bad_object_is_told_of_by_its_field_and_does_not_blind_the_controller_to_others() {
    let ns = with_bad_objects().await;
    let controller = ns.start_controller().await;

    ns.await_ready("good").await;
    for (object, field) in bad() {
        let name = object["metadata"]["name"].as_str().unwrap();
        let refused = ns.await_reason(name, "InvalidSpec").await;
        let message = condition(&refused, "Ready")["message"].as_str().unwrap();
        assert!(message.contains(field), "{name}: {message}");
        assert_eq!(condition(&refused, "Stalled")["status"], "True");
        assert_eq!(ns.config_maps().find(&format!("{name}-desired")).await, None);
    }
    // One that comes while the controller runs stops the watch as little as those that it found.
    ns.webservices().create(webservice("late").spec("image", json!([]))).await;
    ns.await_reason("late", "InvalidSpec").await;
    ns.webservices().create(webservice("later")).await;
    ns.await_ready("later").await;
    assert_eq!(controller.failed_passes().await, 0);
}

#[tokio::test]
async fn a_bad_object_can_be_mended_labelled_reported_on_and_deleted_under_todays_rules() {
    let ns = with_bad_objects().await;
    let _webhook = ns.start_webhook().await;
    let _controller = ns.start_controller().await;
    ns.await_reason("number", "InvalidSpec").await;

    ns.webservices().merge("no-object", json!({"metadata": {"labels": {"team": "shop"}}})).await;
    let audited = json!({"type": "Audited", "status": "False", "reason": "Odd", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    ns.webservices().merge_status("no-spec", json!({"status": {"conditions": [audited]}})).await;
    ns.webservices().merge("number", json!({"spec": {"tier": "dev"}})).await;
    ns.await_ready("number").await;
    let refusal = ns.webservices().try_merge("number", &json!({"spec": {"tier": 8}})).await.unwrap_err();
    assert!(refusal.message.contains("spec.tier"), "{refusal}");

    for name in ["no-spec", "no-object", "words"] {
        let held = ns.webservices().get(name).await;
        assert_eq!(held["metadata"]["finalizers"], json!([FINALIZER]), "{name} has it from the controller");
        ns.webservices().delete(name).await;
        ns.webservices().await_gone(name).await;
    }
}

#[tokio::test]
async fn a_webservice_that_becomes_bad_keeps_its_last_good_child() {
    let cluster = TestCluster::private().await;
    cluster.install(crds::anything_goes()).await;
    let ns = cluster.namespace().await;
    let _controller = ns.start_controller().await;
    ns.webservices().create(webservice("checkout").replicas(3)).await;
    ns.await_ready("checkout").await;

    ns.webservices().merge("checkout", json!({"spec": {"image": null}})).await;

    ns.await_reason("checkout", "InvalidSpec").await;
    let child = ns.config_maps().get("checkout-desired").await;
    assert_eq!((&child["data"]["image"], &child["data"]["replicas"]), (&json!("nginx:1.27"), &json!("3")));
}

/// Installs the CRD as it is shipped, and waits until its rules are in force.
async fn tighten(ns: &TestNamespace) {
    ns.cluster().install(crds::shipped()).await;
    eventually("the rules are in force", async || {
        match ns.webservices().try_accept(webservice("probe").spec("tier", 7)).await {
            Err(_) => Ok(()),
            Ok(stored) => Err(stored.to_string()),
        }
    })
    .await;
}

/// A namespace of a private cluster whose CRD allows none of the bad objects that are in it, each with our finalizer, and a
/// controller that has only ever seen this CRD.
async fn with_objects_of_looser_days<const N: usize>(bad: [WebServiceBuilder; N]) -> OperatedNamespace {
    let cluster = TestCluster::private().await;
    cluster.install(crds::anything_goes()).await;
    let ns = cluster.namespace().await;
    for object in bad {
        ns.webservices().create(object.finalizers([FINALIZER])).await;
    }
    tighten(&ns).await;
    OperatedNamespace::start(ns).await
}

#[tokio::test]
async fn an_object_that_its_crd_no_longer_allows_is_told_of_beside_good_ones_and_can_be_deleted() {
    let bad = [("tier", json!(7)), ("image", json!(5)), ("replicas", json!("two"))];
    let objects = bad.clone().map(|(field, value)| webservice(field).spec(field, value));
    let ns = with_objects_of_looser_days(objects).await;

    ns.webservices().create(webservice("good")).await;
    ns.await_ready("good").await;
    for (field, _) in bad {
        let refused = ns.await_reason(field, "InvalidSpec").await;
        assert!(condition(&refused, "Ready")["message"].to_string().contains(&format!("spec.{field}")));
        ns.webservices().delete(field).await;
        ns.webservices().await_gone(field).await;
    }
}

#[tokio::test]
async fn an_object_that_was_told_of_under_a_tighter_crd_and_is_healed_becomes_ready_and_nothing_else() {
    let ns = with_objects_of_looser_days([webservice("checkout").spec("tier", 7)]).await;
    let refused = ns.await_reason("checkout", "InvalidSpec").await;
    assert_eq!(condition(&refused, "Stalled")["status"], "True");

    ns.webservices().merge("checkout", json!({"spec": {"tier": "dev"}})).await;
    ns.await_ready("checkout").await;
    ns.controller.settle(&ns).await;

    let healed = ns.webservices().get("checkout").await;
    assert!(condition(&healed, "Stalled").is_null(), "{healed:#}");
    let mark = ns.mark().await;
    assert_eq!(ns.writes_since(&mark).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_condition_of_others_that_no_type_can_hold_leads_to_no_writes_and_hides_no_ready() {
    let mut ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    let mut conditions = ns.await_ready("checkout").await["status"]["conditions"].take();
    let audited = json!({"type": "Audited", "status": "True", "reason": "Passed", "message": "", "lastTransitionTime": "9999-12-31T23:59:59Z"});
    conditions.as_array_mut().unwrap().push(audited);
    let mark = ns.mark().await;
    ns.webservices().merge_status("checkout", json!({"status": {"conditions": conditions}})).await;

    ns.webservices().create(webservice("shop").depends_on(["checkout"])).await;
    ns.await_ready("shop").await;
    ns.restart_controller().await;

    let writes = ns.writes_since(&mark).await;
    assert!(writes.iter().all(|write| write.contains("shop")), "{writes:?}");
    assert_eq!(condition(&ns.webservices().get("checkout").await, "Audited")["status"], "True");
}
