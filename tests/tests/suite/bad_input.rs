//! What is wrong with the surroundings is said in one sentence: at once where nothing can be done, and again and again,
//! while waiting, where it may come right by itself.

use std::fs;
use std::net::TcpListener;

use serde_json::json;
use webservice_api::rbac;
use webservice_tests::bed::{
    Controller, Output, Process, TestCluster, TestNamespace, Tool, crds, eventually, webservice,
};

const ANY_PORTS: [&str; 2] = ["--probe-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"];

async fn controller(arguments: &[&str]) -> Output {
    Tool::binary("webservice-controller").args(ANY_PORTS).args(arguments).await
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named_by_each_program() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing").display().to_string();
    let garbage = directory.path().join("garbage").display().to_string();
    let empty = directory.path().join("empty").display().to_string();
    fs::write(&garbage, "{clusters: [").unwrap();
    fs::write(&empty, "").unwrap();
    for path in [&missing, &garbage, &empty] {
        let flag = format!("--kubeconfig={path}");
        let refused = controller(&[&flag]).await.exits(1);
        assert!(refused.complaint().contains(path), "{refused}");
        let refused = Tool::binary("kubectl-webservice").args(["plan", "checkout", &flag]).await.exits(1);
        assert!(refused.complaint().contains(path), "{refused}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_named_with_its_purpose() {
    let ns = TestNamespace::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = format!("--kubeconfig={}", ns.cluster().kubeconfig_path().display());

    for (program, flag, purpose) in [
        ("webservice-controller", "--probe-address", "probes"),
        ("webservice-controller", "--metrics-address", "metrics"),
        ("webservice-webhook", "--https-address", "admission reviews"),
        ("webservice-webhook", "--probe-address", "probes"),
        ("webservice-webhook", "--metrics-address", "metrics"),
    ] {
        let others = ["--https-address=127.0.0.1:0", ANY_PORTS[0], ANY_PORTS[1]];
        let others = others.into_iter().filter(|other| !other.starts_with(flag));
        let others = others.filter(|other| program == "webservice-webhook" || !other.starts_with("--https"));
        let account = (program == "webservice-controller").then(|| kubeconfig.clone());
        let all = others.map(ToOwned::to_owned).chain(account).chain([format!("{flag}={address}")]);
        let refused = Tool::binary(program).args(all).await.exits(1);
        let complaint = refused.complaint();
        assert!(complaint.contains(&address) && complaint.contains(purpose), "{refused}");
    }
}

#[tokio::test]
async fn a_missing_or_broken_certificate_is_waited_for_and_said_what_is_wrong_with() {
    let directory = tempfile::tempdir().unwrap();
    let webhook = Process::webhook(directory.path()).await;
    let says = async |word: &str| {
        let what = format!("says {word:?}");
        webhook.await_line(&what, |line| line.to_string().contains(word)).await;
    };
    says("tls.crt").await;
    fs::write(directory.path().join("tls.crt"), "no certificate").unwrap();
    fs::write(directory.path().join("tls.key"), "no key").unwrap();
    says("PEM").await;
    assert_eq!(webhook.errors(), Vec::<serde_json::Value>::new());
    webhook.stop().await;
}

#[tokio::test]
async fn a_file_that_holds_no_webservice_is_refused_by_what_it_holds() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    for (path, words) in [
        (
            file("deployment.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}"),
            "Deployment",
        ),
        (file("broken.yaml", "a: [1, 2"), "line"),
        (file("text.yaml", "just a sentence"), "no WebService"),
        (directory.path().join("missing.yaml").display().to_string(), "No such file"),
    ] {
        let refused = Tool::binary("kubectl-webservice").args(["validate", "-f", &path]).await.exits(1);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(words) && said.contains(&path), "{refused}");
        assert!(!said.contains("panicked"), "{refused}");
    }
}

#[tokio::test]
async fn a_webservice_or_a_server_that_does_not_exist_is_named_by_the_plugin() {
    let ns = TestNamespace::new().await;
    for command in ["observe", "plan", "explain"] {
        let refused = ns.plugin([command, "nobody"]).await.exits(1);
        let complaint = refused.complaint();
        assert!(complaint.contains("nobody") && complaint.contains(ns.name()), "{refused}");
    }
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let kubeconfig = fs::read_to_string(ns.kubeconfig()).unwrap();
    let server = ns.cluster().server();
    let path = ns.directory().join("nowhere");
    fs::write(&path, kubeconfig.replace(server, &format!("https://{nowhere}"))).unwrap();
    let refused = ns.plugin(["plan", "checkout"]).env("KUBECONFIG", &path).await.exits(1);
    assert!(refused.complaint().contains(&nowhere.to_string()), "{refused}");
}

async fn await_not_ready(controller: &Controller, words: &[&str]) {
    eventually(&format!("/readyz says {words:?}"), async || match controller.probe("/readyz").await {
        (503, text) if words.iter().all(|word| text.contains(word)) => Ok(()),
        (code, text) => Err(format!("{code} {text}")),
    })
    .await;
}

#[tokio::test]
async fn a_missing_crd_is_waited_for() {
    let cluster = TestCluster::private().await;
    let ns = cluster.namespace().await;
    let refused = ns.plugin(["plan", "checkout"]).await.exits(1);
    assert!(refused.complaint().contains("webservices.apps.labhub.io"), "{refused}");
    let controller = ns.controller().launch().await;
    await_not_ready(&controller, &["webservices.apps.labhub.io", "CustomResourceDefinition"]).await;
    let says_so = |line: &serde_json::Value| line["message"].to_string().contains("CustomResourceDefinition");
    controller.process().await_line("says that the CRD is missing", says_so).await;

    cluster.install(crds::shipped()).await;

    controller.await_readyz().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
}

#[tokio::test]
async fn a_crd_that_is_removed_takes_all_objects_along_and_may_come_back() {
    let cluster = TestCluster::private().await;
    cluster.install(crds::shipped()).await;
    let ns = cluster.namespace().await;
    let controller = ns.start_controller().await;
    for number in 0..10 {
        ns.webservices().create(webservice(&format!("w-{number}"))).await;
    }
    controller.settle(&ns).await;

    ns.kubectl(["delete", "crd", "webservices.apps.labhub.io", "--timeout=110s"]).await.succeeds();
    let children = ns.config_maps().list().await;
    assert!(
        children.iter().all(|map| !map["metadata"]["name"].to_string().contains("-desired")),
        "{children:?}"
    );

    cluster.install(crds::shipped()).await;
    ns.webservices().create(webservice("again")).await;
    ns.await_ready("again").await;
}

#[tokio::test]
async fn a_missing_right_is_named_and_waited_for() {
    let ns = TestNamespace::new().await;
    let mut rules = rbac::controller();
    rules.retain(|rule| rule.resources != Some(vec!["configmaps".into()]));
    ns.grant(rules).await;
    let controller = ns.controller().launch().await;
    await_not_ready(&controller, &["configmaps", "list"]).await;
    let names_it = |line: &serde_json::Value| {
        let message = line["message"].to_string();
        message.contains("configmaps") && message.contains("list")
    };
    controller.process().await_line("names the missing right", names_it).await;

    ns.grant(rbac::controller()).await;

    controller.await_readyz().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    assert_eq!(ns.config_maps().get("checkout-desired").await["data"]["replicas"], json!("1"));
}
