//! `dependsOn`: what comes first, who waits, and who is woken.

use serde_json::{Value, json};
use webservice_api::constants::MANAGED_BY_LABEL;
use webservice_tests::bed::{TestNamespace, condition, uid, version, webservice};

async fn version_of_child(ns: &TestNamespace, name: &str) -> u64 {
    version(&ns.config_maps().get(&format!("{name}-desired")).await).parse().unwrap()
}

#[tokio::test]
async fn a_chain_starts_in_its_order_however_it_was_created() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("c").depends_on(["b"])).await;
    ns.await_reason("c", "DependencyNotReady").await;
    ns.webservices().create(webservice("b").depends_on(["a"])).await;
    ns.await_reason("b", "DependencyNotReady").await;
    ns.webservices().create(webservice("a")).await;

    ns.await_ready("c").await;

    let [a, b, c] = [
        version_of_child(&ns, "a").await,
        version_of_child(&ns, "b").await,
        version_of_child(&ns, "c").await,
    ];
    assert!(a < b && b < c, "children were created at {a}, {b} and {c}");
}

#[tokio::test]
async fn who_waits_is_told_what_for_and_has_no_child() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("stuck").suspended()).await;
    ns.webservices().create(webservice("checkout").depends_on(["billing", "stuck"])).await;

    let waiting = ns.await_reason("checkout", "DependencyNotReady").await;

    let message = condition(&waiting, "Ready")["message"].to_string();
    assert!(
        message.contains("billing does not exist") && message.contains("stuck is not Ready"),
        "{message}"
    );
    assert_eq!(condition(&waiting, "Reconciling")["status"], "True");
    assert_eq!(waiting["status"]["replicas"], 0);
    assert_eq!(ns.config_maps().find("checkout-desired").await, None);
}

#[tokio::test]
async fn a_cycle_is_named_and_ends_when_somebody_breaks_it() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("a").depends_on(["b"])).await;
    ns.webservices().create(webservice("b").depends_on(["a"])).await;
    for name in ["a", "b"] {
        let stalled = ns.await_reason(name, "DependencyCycle").await;
        let message = condition(&stalled, "Ready")["message"].to_string();
        assert!(message.contains('a') && message.contains('b') && message.contains('→'), "{message}");
        assert_eq!(condition(&stalled, "Stalled")["status"], "True");
    }

    ns.webservices().merge("a", json!({"spec": {"dependsOn": null}})).await;

    ns.await_ready("a").await;
    ns.await_ready("b").await;
}

#[tokio::test]
async fn a_dependency_that_goes_later_takes_ready_away_but_not_the_child() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("billing")).await;
    ns.webservices().create(webservice("checkout").depends_on(["billing"])).await;
    ns.await_ready("checkout").await;

    ns.webservices().delete("billing").await;
    ns.await_reason("checkout", "DependencyNotReady").await;

    // The gate is for the creation alone: what exists is still repaired and updated.
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 4}})).await;
    let is_updated = |child: &Value| child["data"]["replicas"] == "4";
    ns.config_maps().await_that("checkout-desired", "is updated", is_updated).await;
    ns.config_maps().merge("checkout-desired", json!({"data": {"image": "nginx:1.26"}})).await;
    let is_repaired = |child: &Value| child["data"]["image"] == "nginx:1.27";
    ns.config_maps().await_that("checkout-desired", "is repaired", is_repaired).await;

    ns.webservices().create(webservice("billing")).await;
    ns.await_ready("checkout").await;
}

#[tokio::test]
async fn a_dependency_of_another_namespace_does_not_count() {
    let ns = TestNamespace::with_operator().await;
    let elsewhere = TestNamespace::with_operator().await;
    elsewhere.webservices().create(webservice("billing")).await;
    elsewhere.await_ready("billing").await;
    ns.webservices().create(webservice("checkout").depends_on(["billing"])).await;
    ns.await_reason("checkout", "DependencyNotReady").await;
}

#[tokio::test]
async fn a_dependency_that_only_changes_does_not_disturb_who_depends_on_it() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("billing")).await;
    ns.webservices().create(webservice("checkout").depends_on(["billing"])).await;
    ns.await_ready("checkout").await;
    ns.controller.settle(&ns).await;

    let mark = ns.mark().await;
    ns.webservices().merge("billing", json!({"spec": {"replicas": 3}})).await;
    ns.await_ready("billing").await;

    let writes = ns.writes_since(&mark).await;
    assert!(writes.iter().all(|write| write.contains("billing")), "{writes:?}");
}

#[tokio::test]
async fn a_closed_gate_keeps_no_child_from_being_repaired_that_has_also_lost_its_label() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("billing")).await;
    ns.webservices().create(webservice("checkout").depends_on(["billing"])).await;
    ns.await_ready("checkout").await;
    let child = ns.config_maps().get("checkout-desired").await;
    ns.webservices().delete("billing").await;
    ns.await_reason("checkout", "DependencyNotReady").await;

    let damage = json!({"metadata": {"labels": {MANAGED_BY_LABEL: null}}, "data": {"image": "nginx:1.26"}});
    ns.config_maps().merge("checkout-desired", damage).await;

    let is_repaired = |now: &Value| {
        now["metadata"]["labels"] == child["metadata"]["labels"] && now["data"] == child["data"]
    };
    let repaired = ns.config_maps().await_that("checkout-desired", "is repaired", is_repaired).await;
    assert_eq!(uid(&repaired), uid(&child));
}
