//! What a webhook cannot beat: a server that reads each body and answers with always the same few bytes, on the same
//! libraries (tokio, rustls, hyper) with the same TLS settings.

use std::convert::Infallible;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use webservice_certs::{CERTIFICATE_FILE, KEY_FILE};

/// As long as the answer to a review that is allowed unchanged.
const ANSWER: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"8a7d3bd2-6f0c-4c0e-9a55-0c3a1c3d5f10","allowed":true}}"#;

/// Serves with the certificate in `directory`, on a port of its choice that it tells on standard output in the same form
/// as our programs' logs. It ends with its process.
pub async fn run(directory: &Path) -> Result<Infallible> {
    let acceptor = acceptor(directory)?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let listening = serde_json::json!({"message": "listening", "https": listener.local_addr()?});
    writeln!(std::io::stdout(), "{listening}")?;
    accept(listener, acceptor).await
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor) -> Result<Infallible> {
    loop {
        let (stream, _) = listener.accept().await.context("failed to accept a connection")?;
        // A client that goes away is no concern of the others.
        tokio::spawn(serve(acceptor.clone(), stream));
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await?)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// TLS as the webhook sets it up.
fn acceptor(directory: &Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(directory.join(CERTIFICATE_FILE))
        .and_then(Iterator::collect)
        .context("failed to read the certificate")?;
    let key = PrivateKeyDer::from_pem_file(directory.join(KEY_FILE)).context("failed to read the key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::{SignedDuration, Timestamp};
    use tempfile::TempDir;
    use webservice_certs::{Ca, Validity};

    use super::super::client::Target;
    use super::super::load::{Load, Until};
    use super::super::reviews;
    use super::*;

    /// The load of two connections on an echo server of its own.
    async fn load(requests: Vec<Vec<u8>>) -> Load {
        let directory = TempDir::new().unwrap();
        let validity = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
        let ca = Ca::create(validity).unwrap();
        let leaf = ca.issue(&["127.0.0.1"], validity).unwrap();
        std::fs::write(directory.path().join(CERTIFICATE_FILE), leaf.certificate_pem()).unwrap();
        std::fs::write(directory.path().join(KEY_FILE), leaf.key_pem()).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let target = Target::new(listener.local_addr().unwrap(), ca.certificate_pem()).unwrap();
        tokio::spawn(accept(listener, acceptor(directory.path()).unwrap()));
        Load { target, requests: requests.into(), connections: 2 }
    }

    #[tokio::test]
    async fn every_connection_gets_its_answers() {
        let load = load(reviews::update(64 * 1024).unwrap()).await;
        let took = load.connect().await.unwrap().closed_loop(Until::Calls(3)).await.unwrap();
        assert_eq!(took.len(), 6);
    }

    #[tokio::test]
    async fn at_a_fixed_rate_every_call_that_is_due_is_made() {
        let load = load(reviews::create(1_900).unwrap()).await;
        let ready = load.connect().await.unwrap();
        let took = ready.open_loop(1_000, Duration::from_millis(50)).await.unwrap();
        assert_eq!(took.len(), 50);
    }

    #[tokio::test]
    async fn a_storm_waits_until_the_server_has_closed_each_connection() {
        let load = load(reviews::closing(&reviews::create(1_900).unwrap())).await;
        assert!(load.storm(Duration::from_millis(20)).await.unwrap() >= 2);
    }

    #[tokio::test]
    async fn an_answer_other_than_200_ends_the_load() {
        let load = load(vec![b"NONSENSE\r\n\r\n".to_vec()]).await;
        let error = load.connect().await.unwrap().closed_loop(Until::Calls(1)).await.unwrap_err();
        assert!(error.to_string().contains("400"), "{error}");
    }
}
