//! The step before a release is removed: after it nothing hangs, whatever was there and whoever is gone already.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{
    Controller, Installation, Objects, Rights, TestNamespace, Tool, eventually, kubeconfig_with, name,
    webservice,
};

/// `webservice-controller uninstall`, with the rights that the chart grants it.
struct Uninstall {
    kubeconfig: String,
    flags: Vec<String>,
}

impl Uninstall {
    async fn of(ns: &TestNamespace) -> Self {
        let rights = Rights {
            here: &["uninstall", "uninstall-certificates", "release"],
            in_cluster: &["uninstall-registration"],
            names: Installation::names(ns),
        };
        let kubeconfig = kubeconfig_with(ns, "uninstall", &rights).await.display().to_string();
        let flags = [
            "uninstall".to_owned(),
            format!("--namespace={}", ns.name()),
            format!("--namespaces={}", ns.name()),
            format!("--webhook-configuration={}", ns.name()),
            "--deployment=controller".to_owned(),
            "--secret=webhook-tls".to_owned(),
            "--secret=webhook-ca".to_owned(),
        ];
        Self { kubeconfig, flags: flags.into() }
    }

    fn within(&self, timeout: &str) -> Tool {
        Tool::binary("webservice-controller")
            .args(&self.flags)
            .args([format!("--kubeconfig={}", self.kubeconfig), format!("--timeout={timeout}")])
    }
}

fn deployments(ns: &TestNamespace) -> Objects {
    ns.objects::<Deployment>()
}

/// The Deployment of a controller whose process the test runs: no kubelet is there to run its pod.
async fn create_deployment(ns: &TestNamespace) {
    let labels = json!({"app": "controller"});
    let container = json!({"name": "controller", "image": "controller"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    deployments(ns)
        .create(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "controller"}, "spec": spec}))
        .await;
}

/// Stops the process when its Deployment is scaled to 0, as a kubelet would.
async fn stop_when_scaled_down(ns: &TestNamespace, controller: &Controller) {
    let is_none = |deployment: &Value| deployment["spec"]["replicas"] == 0;
    deployments(ns).await_that("controller", "is scaled to 0", is_none).await;
    controller.process().stop().await;
}

async fn create_ready(ns: &TestNamespace, names: &[&str]) {
    for name in names {
        ns.webservices().create(webservice(name)).await;
    }
    for name in names {
        ns.await_ready(name).await;
    }
}

#[tokio::test]
async fn after_it_live_webservices_stay_and_their_namespace_can_go() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let controller = installed.controller().start().await;
    create_deployment(&ns).await;
    create_ready(&ns, &["a", "b", "c", "d", "e"]).await;
    let kept = json!({"metadata": {"finalizers": ["x.io/of-others", FINALIZER]}});
    ns.webservices().merge("e", kept).await;

    let uninstall = Uninstall::of(&ns).await;
    let (ended, ()) = tokio::join!(uninstall.within("100s"), stop_when_scaled_down(&ns, &controller));
    ended.succeeds();
    for webservice in ns.webservices().list().await {
        let left = if name(&webservice) == "e" { json!(["x.io/of-others"]) } else { Value::Null };
        assert_eq!(webservice["metadata"]["finalizers"], left, "{}", name(&webservice));
        ns.config_maps().get(&format!("{}-desired", name(&webservice))).await;
    }
    for gone in ["webhook-ca", "webhook-tls"] {
        assert_eq!(installed.secrets().find(gone).await, None);
    }
    assert_eq!(ns.leases().list().await, Vec::<Value>::new());
    let listed =
        ns.kubectl(["get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name"]);
    assert!(!listed.await.succeeds().stdout.contains(ns.name()));

    uninstall.within("100s").await.succeeds();

    ns.webservices().merge("e", json!({"metadata": {"finalizers": null}})).await;
    ns.kubectl(["delete", "namespace", ns.name(), "--wait=false"]).await.succeeds();
    eventually("the namespace is gone", async || {
        let found = ns.kubectl(["get", "namespace", ns.name(), "-o", "json", "--ignore-not-found"]).await;
        if found.stdout.is_empty() { Ok(()) } else { Err(found) }
    })
    .await;
}

#[tokio::test]
async fn a_controller_that_is_dead_already_holds_it_up_no_longer_than_its_lease_lasts() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let controller = installed.controller().start().await;
    create_ready(&ns, &["checkout"]).await;
    controller.process().kill().await;
    ns.webservices().delete("checkout").await;

    Uninstall::of(&ns).await.within("100s").await.succeeds();
    ns.webservices().await_gone("checkout").await;
}

#[tokio::test]
async fn a_controller_that_does_not_stop_ends_it_with_a_sentence_that_says_how_to_go_on() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let _controller = installed.controller().start().await;
    create_ready(&ns, &["checkout"]).await;
    let uninstall = Uninstall::of(&ns).await;
    let ended = uninstall.within("30s").await.exits(1);
    let complaint = ended.complaint();
    for part in
        ["failed to wait until nobody leads", "leads; not done: ", "release the WebServices", "--no-hooks"]
    {
        assert!(complaint.contains(part), "{complaint}");
    }
    let stored = ns.webservices().get("checkout").await;
    assert_eq!(
        stored["metadata"]["finalizers"],
        json!([FINALIZER]),
        "nothing is released while somebody leads"
    );
}
