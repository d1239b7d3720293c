//! Living with others: autoscalers, tools that apply the same manifest over and over, and other writers of conditions.

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{TestNamespace, condition, webservice};

#[tokio::test]
async fn scaling_and_applying_in_turn_leaves_the_last_scale() {
    let ns = TestNamespace::with_operator().await;
    // Without replicas: whoever applies it has no opinion on them.
    let manifest = webservice("checkout").tier("prod");
    ns.webservices().apply(manifest.clone()).await;
    for replicas in ["3", "5", "8"] {
        ns.kubectl(["scale", "webservice", "checkout", "--replicas", replicas]).await.succeeds();
        ns.webservices().apply(manifest.clone()).await;
    }

    let owner = ns.await_ready("checkout").await;

    assert_eq!((&owner["spec"]["replicas"], &owner["status"]["replicas"]), (&json!(8), &json!(8)));
    assert_eq!(ns.config_maps().get("checkout-desired").await["data"]["replicas"], "8");
}

#[tokio::test]
async fn a_condition_of_somebody_else_survives_our_reports() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    let owner = ns.await_ready("checkout").await;
    let audited = json!({"type": "Audited", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions = owner["status"]["conditions"].as_array().cloned().unwrap();
    conditions.push(audited.clone());
    ns.webservices().merge_status("checkout", json!({"status": {"conditions": conditions}})).await;

    ns.webservices().merge("checkout", json!({"spec": {"replicas": 3}})).await;

    let owner = ns.await_ready("checkout").await;
    assert_eq!(condition(&owner, "Audited"), &audited);
}

#[tokio::test]
async fn a_manifest_that_lists_our_finalizer_neither_doubles_it_nor_holds_the_object() {
    let ns = TestNamespace::with_operator().await;
    let manifest = webservice("checkout").finalizers([FINALIZER]);
    for _ in 0..2 {
        ns.webservices().apply(manifest.clone()).await;
    }
    assert_eq!(ns.await_ready("checkout").await["metadata"]["finalizers"], json!([FINALIZER]));
    ns.webservices().delete("checkout").await;
    ns.webservices().await_gone("checkout").await;
}

#[tokio::test]
async fn before_any_controller_has_looked_nobody_takes_an_object_for_healthy() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let created = ns.webservices().create(webservice("checkout")).await;
    let ready = condition(&created, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("Pending")));
    let waited = ns.kubectl(["wait", "--for=condition=Ready", "webservice/checkout", "--timeout=0s"]).await;
    assert_eq!(waited.code, Some(1), "{waited}");
}

#[tokio::test]
async fn events_tell_transitions_in_words_without_numbers_that_change() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout").depends_on(["billing"])).await;
    ns.await_reason("checkout", "DependencyNotReady").await;
    ns.webservices().create(webservice("billing")).await;
    ns.await_ready("checkout").await;
    ns.controller.settle(&ns).await;

    let described = ns.kubectl(["describe", "webservice", "checkout"]).await.succeeds().stdout;
    assert!(described.contains("Waiting for dependencies: billing does not exist"), "{described}");
    assert!(described.contains("ConfigMap checkout-desired matches the spec"), "{described}");
    let is_about_checkout = |event: &&Value| event["regarding"]["name"] == "checkout";
    let events = ns.events().list().await;
    let mut reasons: Vec<_> =
        events.iter().filter(is_about_checkout).map(|event| event["reason"].to_string()).collect();
    reasons.sort();
    assert_eq!(reasons, ["\"DependencyNotReady\"", "\"Reconciled\""]);
}
