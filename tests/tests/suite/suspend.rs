//! `spec.suspend`: nothing is created or changed, but what there is is told, and deletion works.

use serde_json::{Value, json};
use webservice_tests::bed::{OperatedNamespace, TestNamespace, condition, webservice};

/// A namespace in which `checkout` was Ready before it was suspended.
async fn suspended_later() -> OperatedNamespace {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.webservices().merge("checkout", json!({"spec": {"suspend": true}})).await;
    ns.await_reason("checkout", "Suspended").await;
    ns
}

#[tokio::test]
async fn a_webservice_that_is_created_suspended_gets_its_child_when_it_is_resumed() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout").suspended()).await;
    let suspended = ns.await_reason("checkout", "Suspended").await;
    assert_eq!(condition(&suspended, "Suspended")["status"], "True");
    assert_eq!(condition(&suspended, "Ready")["status"], "False");
    assert_eq!(ns.config_maps().find("checkout-desired").await, None);

    ns.webservices().merge("checkout", json!({"spec": {"suspend": false}})).await;

    let resumed = ns.await_ready("checkout").await;
    assert!(condition(&resumed, "Suspended").is_null(), "{resumed:#}");
}

#[tokio::test]
async fn a_suspended_webservice_stays_ready_while_its_child_matches() {
    let ns = suspended_later().await;
    assert_eq!(condition(&ns.webservices().get("checkout").await, "Ready")["status"], "True");
}

#[tokio::test]
async fn a_child_that_drifts_meanwhile_is_told_and_put_back_afterwards() {
    let ns = suspended_later().await;
    ns.config_maps().merge("checkout-desired", json!({"data": {"image": "nginx:1.26"}})).await;
    let is_out_of_step = |object: &Value| condition(object, "Ready")["status"] == "False";
    ns.webservices().await_that("checkout", "is told to be out of step", is_out_of_step).await;
    ns.controller.settle(&ns).await;
    assert_eq!(ns.config_maps().get("checkout-desired").await["data"]["image"], "nginx:1.26");

    ns.webservices().merge("checkout", json!({"spec": {"suspend": null}})).await;

    ns.await_ready("checkout").await;
    assert_eq!(ns.config_maps().get("checkout-desired").await["data"]["image"], "nginx:1.27");
}

#[tokio::test]
async fn a_suspended_webservice_is_deleted_like_any_other() {
    let ns = suspended_later().await;
    ns.webservices().delete("checkout").await;
    ns.webservices().await_gone("checkout").await;
    assert_eq!(ns.config_maps().find("checkout-desired").await, None);
}
