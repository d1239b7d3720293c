//! A webhook that talks to its API server alone.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::tempdir;
use webservice_api::crd::crd;
use webservice_tests::bed::{TestCluster, webservice};
use webservice_tests::cluster::Options;
use webservice_tests::cluster::pki::{Authority, Subject};

/// Has the API server present this certificate to every webhook, as
/// <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers> says.
fn presenting(directory: &Path, certificate: &Path, key: &Path) -> Options {
    let kubeconfig = write(
        &directory.join("webhooks.kubeconfig"),
        &json!({
            "apiVersion": "v1", "kind": "Config",
            "users": [{"name": "*", "user": {"client-certificate": certificate, "client-key": key}}],
        }),
    );
    let plugin = |name: &str| {
        json!({"name": name, "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": kubeconfig,
        }})
    };
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"].map(plugin);
    let admission = write(
        &directory.join("admission.json"),
        &json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": plugins,
        }),
    );
    let flag = format!("--admission-control-config-file={}", admission.display());
    Options { api_server: vec![flag], ..Options::default() }
}

fn write(file: &Path, content: &Value) -> PathBuf {
    fs::write(file, content.to_string()).unwrap();
    file.to_owned()
}

#[tokio::test]
async fn the_api_server_is_known_by_its_certificate() {
    let directory = tempdir().unwrap();
    let authority = Authority::create(directory.path()).unwrap();
    let client = authority.issue_files("client", &Subject::user("kube-apiserver"), &[]).unwrap();
    let options = presenting(directory.path(), &client.certificate, &client.key);
    let cluster = TestCluster::private_with(&options).await;
    cluster.install(crd().unwrap()).await;
    let ns = cluster.namespace().await;

    let ca = format!("--client-ca={}", authority.files().certificate.display());
    let webhook = ns.webhook().flags([ca, "--client-name=kube-apiserver".into()]).start().await;

    let refusal = ns.webservices().rejects(webservice("checkout").image("")).await;
    assert_eq!(refusal.code, 422, "{refusal}");
    assert_eq!(webhook.metrics().await.count("webservice_webhook_tls_handshake_errors_total", &[]), 0);
}
