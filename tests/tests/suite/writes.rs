//! What the controller writes per WebService, counted in the API server's audit log. No object is written without a reason,
//! and nothing is read again once it is in the cache.

use serde_json::json;
use webservice_tests::bed::{OperatedNamespace, TestNamespace, webservice};

const NONE: [&str; 0] = [];

/// A namespace in which `checkout` is Ready and nothing is left to do.
async fn at_rest() -> OperatedNamespace {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.controller.settle(&ns).await;
    ns
}

#[tokio::test]
async fn a_creation_takes_two_writes() {
    let ns = TestNamespace::with_operator().await;
    let mark = ns.mark().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    let expected = ["create configmaps checkout-desired", "patch webservices/status checkout"];
    assert_eq!(ns.writes_since(&mark).await, expected);
}

#[tokio::test]
async fn a_creation_while_the_webhook_is_away_takes_one_more_for_the_finalizer() {
    let ns = TestNamespace::new().await;
    let controller = ns.start_controller().await;
    let mark = ns.mark().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    let expected = [
        "create configmaps checkout-desired",
        "patch webservices checkout",
        "patch webservices/status checkout",
    ];
    assert_eq!(ns.writes_since(&mark, &controller).await, expected);
}

#[tokio::test]
async fn a_change_of_the_spec_takes_two_writes() {
    let ns = at_rest().await;
    let mark = ns.mark().await;
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 3}})).await;
    ns.await_ready("checkout").await;
    let expected = ["patch configmaps checkout-desired", "patch webservices/status checkout"];
    assert_eq!(ns.writes_since(&mark).await, expected);
}

#[tokio::test]
async fn a_change_of_something_else_takes_none() {
    let ns = at_rest().await;
    let mark = ns.mark().await;
    ns.webservices().merge("checkout", json!({"metadata": {"labels": {"team": "shop"}}})).await;
    assert_eq!(ns.writes_since(&mark).await, NONE);
}

#[tokio::test]
async fn a_restart_of_the_controller_takes_none() {
    let mut ns = at_rest().await;
    let mark = ns.mark().await;
    ns.restart_controller().await;
    assert_eq!(ns.writes_since(&mark).await, NONE);
}

#[tokio::test]
async fn a_child_that_is_edited_by_hand_is_put_back_by_one() {
    let ns = at_rest().await;
    let mark = ns.mark().await;
    ns.config_maps().merge("checkout-desired", json!({"data": {"image": "nginx:1.26"}})).await;
    ns.config_maps()
        .await_that("checkout-desired", "is put back", |child| child["data"]["image"] == "nginx:1.27")
        .await;
    assert_eq!(ns.writes_since(&mark).await, ["patch configmaps checkout-desired"]);
}

#[tokio::test]
async fn a_child_that_is_deleted_by_hand_is_made_anew_by_one() {
    let ns = at_rest().await;
    let mark = ns.mark().await;
    ns.config_maps().delete("checkout-desired").await;
    ns.config_maps().await_that("checkout-desired", "is there again", |_| true).await;
    assert_eq!(ns.writes_since(&mark).await, ["create configmaps checkout-desired"]);
}

#[tokio::test]
async fn a_deletion_takes_two_writes() {
    let ns = at_rest().await;
    let mark = ns.mark().await;
    ns.webservices().delete("checkout").await;
    ns.webservices().await_gone("checkout").await;
    assert_eq!(
        ns.writes_since(&mark).await,
        ["delete configmaps checkout-desired", "patch webservices checkout"]
    );
}

#[tokio::test]
async fn nothing_is_read_again_once_the_caches_are_filled() {
    let ns = at_rest().await;
    let mark = ns.mark().await;
    ns.webservices().create(webservice("search").depends_on(["checkout"])).await;
    ns.await_ready("search").await;
    ns.webservices().merge("search", json!({"spec": {"tier": "prod"}})).await;
    ns.await_ready("search").await;
    ns.webservices().delete("search").await;
    ns.webservices().await_gone("search").await;
    ns.controller.settle(&ns).await;
    assert_eq!(ns.calls_since(&mark).await.reads(), NONE);
}

#[tokio::test]
async fn a_transition_is_told_by_one_event_and_a_restart_by_none() {
    let mut ns = at_rest().await;
    ns.restart_controller().await;
    ns.controller.settle(&ns).await;
    let about_checkout =
        ns.events().list().await.into_iter().filter(|event| event["regarding"]["name"] == "checkout");
    assert_eq!(about_checkout.map(|event| event["reason"].clone()).collect::<Vec<_>>(), ["Reconciled"]);
}
