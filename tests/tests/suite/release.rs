//! `kubectl webservice release`: the way out where the operator is gone.

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_api::rbac;
use webservice_tests::bed::{Controller, Output, TestNamespace, webservice};

/// A namespace whose controller leads, with these WebServices Ready.
async fn led(names: &[&str]) -> (TestNamespace, Controller) {
    let ns = TestNamespace::new().await;
    ns.grant([rbac::controller(), rbac::leader_election()].concat()).await;
    let own = format!("--leader-election-namespace={}", ns.name());
    let controller = ns.controller().flags(["--leader-elect", &own]).start().await;
    for name in names {
        ns.webservices().create(webservice(name)).await;
        ns.await_ready(name).await;
    }
    (ns, controller)
}

async fn release<const N: usize>(ns: &TestNamespace, arguments: [&str; N]) -> Output {
    let here = format!("--operator-namespace={}", ns.name());
    ns.plugin(["release", "-o", "json", &here]).args(arguments).await
}

#[tokio::test]
async fn with_the_controller_dead_a_deletion_that_hangs_ends_and_the_child_goes_too() {
    let (ns, controller) = led(&["checkout"]).await;
    controller.process().kill().await;
    ns.webservices().delete("checkout").await;
    let released = release(&ns, ["checkout"]).await.succeeds().json();
    assert_eq!(released["items"][0]["action"], "released");
    ns.webservices().await_gone("checkout").await;
    ns.config_maps().await_gone("checkout-desired").await;
}

#[tokio::test]
async fn a_live_object_is_refused_while_a_controller_leads_and_one_that_is_being_deleted_is_not() {
    let (ns, _controller) = led(&["alive", "held"]).await;
    ns.config_maps().merge("held-desired", json!({"metadata": {"finalizers": ["x.io/hold"]}})).await;
    ns.webservices().delete("held").await;
    let answer = release(&ns, ["--all", "--yes"]).await.exits(3).json();
    let told: Vec<_> =
        answer["items"].as_array().unwrap().iter().map(|item| (&item["name"], &item["action"])).collect();
    assert_eq!(told, [(&json!("alive"), &json!("refused")), (&json!("held"), &json!("released"))]);
    ns.webservices().await_gone("held").await;
    assert_eq!(ns.webservices().get("alive").await["metadata"]["finalizers"], json!([FINALIZER]));
}

#[tokio::test]
async fn when_the_leader_has_stopped_live_objects_are_released_too() {
    let (ns, controller) = led(&["checkout"]).await;
    controller.process().stop().await;
    release(&ns, ["--all", "--yes"]).await.succeeds();
    assert_eq!(ns.webservices().get("checkout").await["metadata"]["finalizers"], Value::Null);
}

#[tokio::test]
async fn a_leader_that_was_killed_is_watched_until_its_lease_has_run_out() {
    let (ns, controller) = led(&["checkout"]).await;
    controller.process().kill().await;
    release(&ns, ["checkout"]).await.succeeds();
    assert_eq!(ns.webservices().get("checkout").await["metadata"]["finalizers"], Value::Null);
}

#[tokio::test]
async fn all_are_released_by_nobody_who_has_not_said_so() {
    let ns = TestNamespace::new().await;
    ns.webservices()
        .create(json!({
            "apiVersion": "apps.labhub.io/v1", "kind": "WebService",
            "metadata": {"name": "checkout", "finalizers": [FINALIZER]}, "spec": {"image": "nginx:1.27"},
        }))
        .await;
    let refused = ns.plugin(["release", "--all"]).await.exits(1);
    assert!(refused.complaint().contains("repeat it with --yes"), "{refused}");
    assert_eq!(ns.webservices().get("checkout").await["metadata"]["finalizers"], json!([FINALIZER]));
}
