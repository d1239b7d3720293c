//! Objects that no rule of today would let in, but that are there: each is told of by itself, and none stands in the way of
//! another.

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{TestCluster, TestNamespace, condition, crds, webservice};

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
    assert_eq!(controller.metrics().await.count("controller_runtime_reconcile_errors_total", &[]), 0);
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
