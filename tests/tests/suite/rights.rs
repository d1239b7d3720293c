//! People and steps that hold one set of rights each, and do all that it is for.

use std::path::PathBuf;

use serde_json::Value;
use webservice_api::rbac::Names;
use webservice_tests::bed::{Output, Rights, TestNamespace, Tool, kubeconfig_with, webservice};

/// Somebody who holds these sets in the namespace and nothing else.
struct Person<'n> {
    ns: &'n TestNamespace,
    kubeconfig: PathBuf,
}

impl<'n> Person<'n> {
    async fn holding(ns: &'n TestNamespace, sets: &[&str]) -> Self {
        let rights = Rights { here: sets, in_cluster: &[], names: Names::default() };
        Self { ns, kubeconfig: kubeconfig_with(ns, "person", &rights).await }
    }

    /// kubectl of this person, with a manifest on standard input.
    async fn kubectl(&self, command: &str, manifest: &str) -> Output {
        let here = format!("--namespace={}", self.ns.name());
        let tool = Tool::new(self.ns.cluster().kubectl()).env("KUBECONFIG", &self.kubeconfig);
        tool.args(command.split(' ')).args([here]).input(manifest).await
    }
}

fn manifest(replicas: i32) -> String {
    Value::from(webservice("checkout").replicas(replicas)).to_string()
}

#[tokio::test]
async fn who_may_view_a_namespace_looks_at_webservices_and_waits_for_them_and_changes_none() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    let viewer = Person::holding(&ns, &["view"]).await;
    for command in [
        "wait --for=condition=Ready webservice/checkout",
        "get webservices",
        "get webservice checkout --subresource=status",
        "get webservice checkout --subresource=scale",
    ] {
        let told = viewer.kubectl(command, "").await.succeeds();
        assert!(told.stdout.contains("checkout"), "{told}");
    }
    ns.announce_missing_rights().await;
    for command in ["delete webservice checkout", "scale webservice checkout --replicas=2"] {
        let refused = viewer.kubectl(command, "").await.exits(1);
        assert!(refused.stderr.contains("(Forbidden)"), "{refused}");
    }
}

#[tokio::test]
async fn who_may_edit_a_namespace_makes_changes_scales_and_deletes_webservices() {
    let ns = TestNamespace::with_operator().await;
    // Kubernetes gives all who may edit what those who may view have.
    let editor = Person::holding(&ns, &["view", "edit"]).await;
    for (command, manifest) in [
        ("create --filename=-", manifest(1)),
        ("replace --filename=-", manifest(2)),
        ("apply --server-side --force-conflicts --filename=-", manifest(3)),
        ("scale webservice checkout --replicas=4", String::new()),
        ("scale webservice checkout --current-replicas=4 --replicas=5", String::new()),
    ] {
        editor.kubectl(command, &manifest).await.succeeds();
        // What is replaced is what was read: no report may come between.
        ns.await_ready("checkout").await;
    }
    assert_eq!(ns.webservices().get("checkout").await["spec"]["replicas"], 5);
    editor.kubectl("delete webservices --all", "").await.succeeds();
    ns.webservices().await_gone("checkout").await;
}

#[tokio::test]
async fn helm_test_needs_no_more_than_to_ask_for_a_webservice_that_is_not_stored() {
    let ns = TestNamespace::with_operator().await;
    let step = Person::holding(&ns, &["test"]).await;
    let (kubeconfig, here) =
        (format!("--kubeconfig={}", step.kubeconfig.display()), format!("--namespace={}", ns.name()));
    Tool::binary("webservice-controller").args(["check-webhook", &kubeconfig, &here]).await.succeeds();
}
