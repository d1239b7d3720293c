//! A caller as the API server is one: HTTP/1.1 over TLS, connections that are kept, and no second try once anything of a
//! request was sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use http::header::CONNECTION;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::RwLock;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use webservice_api::constants::{GROUP, KIND, PLURAL, VALIDATE_PATH, VERSION};

use crate::bed::webservice;
use crate::bench::client::trusting;

/// The API server gives up on a call after `timeoutSeconds`, and so must everything here: what hangs has failed.
pub const CALL_TIMEOUT: Duration =
    Duration::from_secs(webservice_api::registration::TIMEOUT_SECONDS.unsigned_abs() as u64);
const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";

/// The authorities that callers trust, as they stand in the registration's `caBundle`. It may change while they call.
pub struct Trust(RwLock<Arc<ClientConfig>>);

impl Trust {
    /// Trust in the authorities of a PEM bundle.
    pub fn in_bundle(pem: &str) -> Result<Self> {
        Ok(Self(RwLock::new(trusting(pem)?)))
    }

    /// Trust in those of another bundle from now on: whoever is still connecting by the one before has done so first.
    pub async fn change_to(&self, pem: &str) -> Result<()> {
        *self.0.write().await = trusting(pem)?;
        Ok(())
    }

    /// TLS with the server at `address`.
    pub(super) async fn connect(&self, address: SocketAddr) -> Result<TlsStream<TcpStream>> {
        let connecting = async {
            let trusted = self.0.read().await;
            let stream = TcpStream::connect(address).await.context("failed to connect")?;
            stream.set_nodelay(true)?;
            let name = ServerName::from(address.ip());
            TlsConnector::from(Arc::clone(&trusted))
                .connect(name, stream)
                .await
                .context("failed to agree on TLS")
        };
        timeout(CALL_TIMEOUT, connecting).await.context("failed to connect in time")?
    }
}

/// One connection to a webhook.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// What the server presented when it was opened.
    pub certificate: CertificateDer<'static>,
}

/// How a call ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With an answer, after which the connection may be used again.
    Kept,
    /// With an answer that closes the connection.
    Closing,
    /// The connection was closed before anything was sent over it: another one can be taken.
    NotSent,
}

impl Connection {
    /// Connects to the webhook at `address`.
    pub async fn open(address: SocketAddr, trust: &Trust) -> Result<Self> {
        let stream = trust.connect(address).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = chain.first().context("a server without a certificate")?.clone().into_owned();
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, certificate })
    }

    /// Asks whether a good object may be created. Everything but a proper permission in time is an error.
    pub async fn call(&mut self) -> Result<()> {
        let outcome = self.try_call().await?;
        ensure!(outcome != Outcome::NotSent, "the connection was closed before the call");
        Ok(())
    }

    pub(super) async fn try_call(&mut self) -> Result<Outcome> {
        timeout(CALL_TIMEOUT, self.ask()).await.context("failed to get an answer in time")?
    }

    async fn ask(&mut self) -> Result<Outcome> {
        if self.sender.ready().await.is_err() {
            return Ok(Outcome::NotSent);
        }
        let (head, body) = match self.sender.send_request(question()?).await {
            Ok(answer) => answer.into_parts(),
            Err(error) if error.is_canceled() => return Ok(Outcome::NotSent),
            Err(error) => return Err(error).context("a broken connection"),
        };
        let body = body.collect().await.context("an answer that is cut off")?.to_bytes();
        let text = String::from_utf8_lossy(&body);
        ensure!(head.status == 200, "an answer with code {}: {text}", head.status);
        let answer: Value = serde_json::from_slice(&body).context("an answer that is no JSON")?;
        let response = &answer["response"];
        ensure!(response["uid"] == UID && response["allowed"] == true, "a wrong answer: {text}");
        let is_last = head.headers.get(CONNECTION).is_some_and(|value| value == "close");
        Ok(if is_last { Outcome::Closing } else { Outcome::Kept })
    }
}

fn question() -> Result<Request<Full<Bytes>>> {
    let kind = json!({"group": GROUP, "version": VERSION, "kind": KIND});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID, "kind": kind,
            "resource": {"group": GROUP, "version": VERSION, "resource": PLURAL},
            "name": "checkout", "namespace": "shop", "operation": "CREATE",
            "object": Value::from(webservice("checkout")), "oldObject": null, "dryRun": false,
        },
    });
    let request = Request::post(format!("{VALIDATE_PATH}?timeout={}s", CALL_TIMEOUT.as_secs()))
        .header("host", "webhook.test.svc")
        .header("content-type", "application/json");
    Ok(request.body(Full::new(review.to_string().into()))?)
}
