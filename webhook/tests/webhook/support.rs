//! A running webhook and its clients.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Request, StatusCode};
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use webservice_certs::{Ca, Leaf, Validity};
use webservice_webhook::{Addresses, Config, Webhook};

pub(crate) const MUTATE: &str = "/mutate-apps-labhub-io-v1-webservice";
pub(crate) const VALIDATE: &str = "/validate-apps-labhub-io-v1-webservice";
pub(crate) const NAME: &str = "webhook.test.svc";

/// How long anything may take before a test gives up on it.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Waits for `future`, but not for ever.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen in {DEADLINE:?}"))
}

pub(crate) fn ca() -> Ca {
    Ca::create(life(24)).unwrap()
}

pub(crate) fn leaf(ca: &Ca) -> Leaf {
    ca.issue(&[NAME], life(12)).unwrap()
}

fn life(hours: i64) -> Validity {
    Validity::lasting(SignedDuration::from_hours(hours), Timestamp::now())
}

pub(crate) fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// A mounted Secret as the kubelet lays it out.
pub(crate) struct Mount {
    directory: TempDir,
    version: u32,
}

impl Mount {
    pub(crate) fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), version: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn put(&mut self, leaf: &Leaf) {
        self.put_files(leaf.certificate_pem(), leaf.key_pem());
    }

    pub(crate) fn put_files(&mut self, certificate: &str, key: &str) {
        self.version += 1;
        let name = format!("..{}", self.version);
        let version = self.path().join(&name);
        std::fs::create_dir(&version).unwrap();
        std::fs::write(version.join("tls.crt"), certificate).unwrap();
        std::fs::write(version.join("tls.key"), key).unwrap();
        symlink(name, self.path().join("..data_tmp")).unwrap();
        std::fs::rename(self.path().join("..data_tmp"), self.path().join("..data")).unwrap();
    }
}

/// Replaces a file at once, as a mount does.
pub(crate) fn replace(path: &Path, content: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, content).unwrap();
    std::fs::rename(next, path).unwrap();
}

/// Waits until `holds` does.
pub(crate) async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let becoming = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, becoming).await;
}

/// A webhook in this process.
pub(crate) struct Served {
    pub(crate) addresses: Addresses,
    pub(crate) ca: Ca,
    pub(crate) mount: Mount,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Served {
    /// Started with a good certificate.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Started with a good certificate and these flags.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let ca = ca();
        let mut mount = Mount::empty();
        mount.put(&leaf(&ca));
        Self::start_from(ca, mount, flags).await
    }

    /// Started with whatever is mounted.
    pub(crate) async fn start_from(ca: Ca, mount: Mount, flags: &[&str]) -> Self {
        let shutdown = CancellationToken::new();
        let webhook = Webhook::bind(&config(mount.path(), flags)).await.unwrap();
        let addresses = webhook.addresses();
        let task = tokio::spawn(webhook.serve(shutdown.clone()));
        Self { addresses, ca, mount, shutdown, task }
    }

    /// A connection that is kept alive.
    pub(crate) async fn connect(&self) -> Client {
        self.try_connect().await.unwrap()
    }

    pub(crate) async fn try_connect(&self) -> io::Result<Client> {
        Client::connect(self.addresses.https, client_config(&self.ca)).await
    }

    /// Status and text of a probe.
    pub(crate) async fn probe(&self, path: &str) -> (u16, String) {
        get(self.addresses.probes, path).await
    }

    pub(crate) async fn metrics(&self) -> String {
        get(self.addresses.metrics, "/metrics").await.1
    }

    /// Waits until /readyz answers with `status`.
    pub(crate) async fn await_readyz(&self, status: u16) -> String {
        let becoming = async {
            loop {
                let (now, text) = self.probe("/readyz").await;
                if now == status {
                    return text;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon("the expected readiness", becoming).await
    }

    /// Ends the webhook and waits for its end.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        soon("the end", self.task).await.unwrap();
    }
}

pub(crate) fn config(cert_dir: &Path, flags: &[&str]) -> Config {
    let cert_dir = format!("--cert-dir={}", cert_dir.display());
    let fixed = [
        "webservice-webhook",
        "--https-address=127.0.0.1:0",
        "--probe-address=127.0.0.1:0",
        "--metrics-address=127.0.0.1:0",
        "--cert-interval=20ms",
        "--shutdown-lame-duck=0s",
        "--shutdown-grace=5s",
        &cert_dir,
    ];
    Config::parse_from(fixed.iter().chain(flags))
}

/// Trusts the CA, as the API server does by the caBundle.
pub(crate) fn client_config(ca: &Ca) -> ClientConfig {
    trusting(ca).with_no_client_auth()
}

/// The same, with a certificate to show still to be chosen.
pub(crate) fn trusting(ca: &Ca) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(der(ca.certificate_pem())).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}

/// A TLS stream with nothing sent over it yet.
pub(crate) async fn tls(address: SocketAddr, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME).unwrap(), stream).await
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "test").body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// One kept connection to the webhook.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    /// What the server presented.
    pub(crate) certificate: CertificateDer<'static>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, config: ClientConfig) -> io::Result<Self> {
        let stream = tls(address, config).await?;
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { sender, certificate })
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, hyper::Error> {
        self.sender.ready().await?;
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        Ok(Reply { status: head.status, headers: head.headers, body: body.collect().await?.to_bytes() })
    }

    /// Sends a body as the API server would.
    pub(crate) async fn try_post(
        &mut self,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Reply, hyper::Error> {
        self.send(post(path, "application/json", body)).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Reply {
        soon("an answer", self.try_post(path, body)).await.unwrap()
    }

    /// Sends a review and gives the answer's response.
    pub(crate) async fn review(&mut self, path: &str, review: &Value) -> Value {
        let reply = self.post(path, review.to_string()).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        let mut answer: Value = serde_json::from_slice(&reply.body).unwrap();
        answer["response"].take()
    }
}

pub(crate) fn post(path: &str, content_type: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(format!("{path}?timeout=5s"))
        .header("host", NAME)
        .header("content-type", content_type)
        .body(Full::new(body.into()))
        .unwrap()
}

/// A creation of `object`, with everything around it that the API server sends.
pub(crate) fn creation(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0b4a1f0e-3a73-4d3c-9c4e-0a8b0c6f2d11",
            "kind": {"group": "apps.labhub.io", "version": "v1", "kind": "WebService"},
            "resource": {"group": "apps.labhub.io", "version": "v1", "resource": "webservices"},
            "requestKind": {"group": "apps.labhub.io", "version": "v1", "kind": "WebService"},
            "name": "checkout", "namespace": "shop", "operation": "CREATE",
            "userInfo": {"username": "dev", "groups": ["system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// A WebService with this spec.
pub(crate) fn webservice(spec: &Value) -> Value {
    json!({
        "apiVersion": "apps.labhub.io/v1", "kind": "WebService",
        "metadata": {"name": "checkout", "namespace": "shop"},
        "spec": spec,
    })
}
