//! Who may talk to the webhook, where that is asked.

use std::net::SocketAddr;
use std::path::PathBuf;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tempfile::TempDir;
use webservice_certs::Ca;

use crate::support::{
    Client, MUTATE, Served, ca, client_config, creation, eventually, replace, soon, trusting, webservice,
};

const API_SERVER: &str = "kube-apiserver";

/// A client that trusts `server` and shows a certificate of `issuer` for `name`, as common name alone.
pub(crate) fn with_certificate(server: &Ca, issuer: &Ca, name: &str) -> ClientConfig {
    showing(server, issuer, name, &[])
}

fn showing(server: &Ca, issuer: &Ca, name: &str, alternative_names: &[&str]) -> ClientConfig {
    let key = KeyPair::from_pem(&issuer.key_pem()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(issuer.certificate_pem(), key).unwrap();
    let names: Vec<_> = alternative_names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    trusting(server).with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
}

/// Whether a review of this client is answered. In TLS 1.3 a client learns only then that it is refused.
pub(crate) async fn is_served(address: SocketAddr, config: ClientConfig) -> bool {
    let review = creation(&webservice(&json!({"image": "nginx:1.27"}))).to_string();
    let answered = async {
        let mut client = Client::connect(address, config).await.ok()?;
        client.try_post(MUTATE, review).await.ok()
    };
    soon("an answer or a refusal", Box::pin(answered)).await.is_some_and(|reply| reply.status == 200)
}

/// A webhook that asks for certificates.
struct Guarded {
    served: Served,
    clients: Ca,
    _directory: TempDir,
    file: PathBuf,
}

impl Guarded {
    async fn start(flags: &[&str]) -> Self {
        let (clients, directory) = (ca(), tempfile::tempdir().unwrap());
        let file = directory.path().join("ca.crt");
        replace(&file, clients.certificate_pem());
        let flags = [&["--client-ca", file.to_str().unwrap()], flags].concat();
        let served = Served::start_with(&flags).await;
        Self { served, clients, _directory: directory, file }
    }

    async fn serves(&self, issuer: &Ca, name: &str) -> bool {
        is_served(self.served.addresses.https, with_certificate(&self.served.ca, issuer, name)).await
    }
}

#[tokio::test]
async fn the_right_client_is_served_under_its_common_name_or_an_alternative_one() {
    let guarded = Guarded::start(&["--client-name=kube-apiserver", "--client-name=other"]).await;
    assert!(guarded.serves(&guarded.clients, API_SERVER).await);
    assert!(guarded.serves(&guarded.clients, "other").await);
    let config = showing(&guarded.served.ca, &guarded.clients, "x", &["kube-apiserver"]);
    assert!(is_served(guarded.served.addresses.https, config).await);
}

#[tokio::test]
async fn other_clients_are_refused_and_probes_are_not() {
    let guarded = Guarded::start(&["--client-name=kube-apiserver"]).await;
    let address = guarded.served.addresses.https;
    assert!(!is_served(address, client_config(&guarded.served.ca)).await, "without a certificate");
    assert!(!guarded.serves(&ca(), API_SERVER).await, "another CA");
    assert!(!guarded.serves(&guarded.clients, "somebody").await, "another name");
    assert_eq!(guarded.served.probe("/readyz").await.0, 200);
    assert!(guarded.served.metrics().await.contains("webservice_webhook_tls_handshake_errors_total 3\n"));
}

#[tokio::test]
async fn without_names_the_ca_alone_decides() {
    let guarded = Guarded::start(&[]).await;
    assert!(guarded.serves(&guarded.clients, "anybody").await);
    assert!(!guarded.serves(&ca(), "anybody").await);
}

#[tokio::test]
async fn a_ca_that_is_replaced_is_followed_and_one_that_cannot_be_read_is_not() {
    let guarded = Guarded::start(&[]).await;
    let next = ca();
    replace(&guarded.file, "garbage");
    eventually("a counted error", async || {
        let metrics = guarded.served.metrics().await;
        !metrics.contains("webservice_file_read_errors_total{file=\"client-ca\"} 0\n")
    })
    .await;
    assert!(guarded.serves(&guarded.clients, API_SERVER).await);

    replace(&guarded.file, &[guarded.clients.certificate_pem(), next.certificate_pem()].concat());
    eventually("both are served", async || guarded.serves(&next, API_SERVER).await).await;
    assert!(guarded.serves(&guarded.clients, API_SERVER).await);

    replace(&guarded.file, next.certificate_pem());
    eventually("the old one is refused", async || !guarded.serves(&guarded.clients, API_SERVER).await).await;
}

#[tokio::test]
async fn without_the_ca_nobody_is_served_and_it_is_not_ready() {
    let guarded = Guarded::start(&[]).await;
    let missing = guarded.file.with_file_name("missing.crt");
    let served = Served::start_with(&["--client-ca", missing.to_str().unwrap()]).await;
    let (status, text) = served.probe("/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("[-]client-ca failed"), "{text}");
    let config = with_certificate(&served.ca, &guarded.clients, API_SERVER);
    assert!(!is_served(served.addresses.https, config).await);

    replace(&missing, guarded.clients.certificate_pem());
    served.await_readyz(200).await;
}
