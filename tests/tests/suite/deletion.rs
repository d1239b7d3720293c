//! Deletion: the child goes first, and nothing is held longer than it must be.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{TestNamespace, condition, eventually, uid, webservice, within};

/// What a namespace may take to go.
const NAMESPACE: Duration = Duration::from_mins(3);

#[tokio::test]
async fn deleting_a_webservice_removes_its_child_before_the_finalizer() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.webservices().delete("checkout").await;
    ns.webservices().await_gone("checkout").await;
    assert_eq!(ns.config_maps().find("checkout-desired").await, None);
}

#[tokio::test]
async fn a_child_that_somebody_holds_holds_its_webservice_and_that_is_told() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.config_maps().merge("checkout-desired", json!({"metadata": {"finalizers": ["x.io/hold"]}})).await;

    ns.webservices().delete("checkout").await;

    let held = ns.await_reason("checkout", "Deleting").await;
    let ready = condition(&held, "Ready");
    assert!(ready["message"].to_string().contains("finalizer"), "{ready}");
    assert_eq!(ready["status"], "False");
    ns.config_maps().merge("checkout-desired", json!({"metadata": {"finalizers": null}})).await;
    ns.webservices().await_gone("checkout").await;
    assert_eq!(ns.config_maps().find("checkout-desired").await, None);
}

#[tokio::test]
async fn an_object_that_was_deleted_without_our_finalizer_does_not_get_it() {
    let ns = TestNamespace::new().await;
    ns.webservices().create(webservice("checkout").finalizers(["x.io/hold"])).await;
    ns.webservices().delete("checkout").await;

    let controller = ns.start_controller().await;
    controller.settle(&ns).await;

    let held = ns.webservices().get("checkout").await;
    assert_eq!(held["metadata"]["finalizers"], json!(["x.io/hold"]));
    assert_eq!(controller.failed_passes().await, 0);
    ns.webservices().merge("checkout", json!({"metadata": {"finalizers": null}})).await;
    ns.webservices().await_gone("checkout").await;
}

#[tokio::test]
async fn a_finalizer_of_somebody_else_stays_when_ours_goes() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout").finalizers(["x.io/before"])).await;
    ns.await_ready("checkout").await;
    ns.webservices().delete("checkout").await;
    let is_released = |object: &serde_json::Value| object["metadata"]["finalizers"] == json!(["x.io/before"]);
    ns.webservices().await_that("checkout", "is released by us", is_released).await;
    assert_eq!(ns.config_maps().find("checkout-desired").await, None);
}

#[tokio::test]
async fn an_object_of_the_same_name_is_a_new_one_every_time() {
    let ns = TestNamespace::with_operator().await;
    for round in 0..10 {
        let owner = ns.webservices().create(webservice("checkout")).await;
        let is_its_own =
            |child: &serde_json::Value| child["metadata"]["ownerReferences"][0]["uid"] == uid(&owner);
        let what = format!("is that of round {round}");
        ns.config_maps().await_that("checkout-desired", &what, is_its_own).await;
        ns.webservices().delete("checkout").await;
        ns.webservices().await_gone("checkout").await;
    }
}

#[tokio::test]
async fn objects_that_are_created_and_deleted_in_one_breath_leave_nothing() {
    let ns = TestNamespace::with_operator().await;
    for number in 0..20 {
        let name = format!("brief-{number}");
        ns.webservices().create(webservice(&name)).await;
        ns.webservices().delete(&name).await;
    }
    ns.controller.settle(&ns).await;
    let left = async || {
        let all = [ns.webservices().list().await, ns.config_maps().list().await].concat();
        let names = all.iter().map(|object| object["metadata"]["name"].to_string());
        names.filter(|name| name.contains("brief")).collect::<Vec<_>>()
    };
    eventually("nothing is left", async || {
        let left = left().await;
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    })
    .await;
}

#[tokio::test]
async fn a_namespace_that_is_deleted_while_much_is_created_in_it_goes() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    // As with a ClusterRole: an account and rights that do not go with the namespace.
    let controller = ns.controller().kubeconfig(ns.cluster().kubeconfig_path()).start().await;
    let namespaces = Api::<Namespace>::all(ns.client().clone());
    for number in 0..20 {
        ns.webservices().create(webservice(&format!("w-{number}"))).await;
    }
    namespaces.delete(ns.name(), &DeleteParams::background()).await.unwrap();

    // Most of this is the namespace controller's time, and it is busy with the namespaces of all other tests.
    within(NAMESPACE, "the namespace is gone", async || match namespaces.get_opt(ns.name()).await.unwrap() {
        None => Ok(()),
        Some(namespace) => Err(format!("{:?}", namespace.status)),
    })
    .await;
    assert_eq!(controller.failed_passes().await, 0);
}

#[tokio::test]
async fn a_new_object_that_claims_to_be_deleted_already_gets_our_finalizer_like_any_other() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let exported = webservice("checkout")
        .edit(|object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let stored = ns.webservices().create(exported).await;
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(stored["metadata"]["deletionTimestamp"].is_null(), "{stored:#}");
}
