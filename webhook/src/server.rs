//! Accepting connections: handshakes run beside the loop, their number is bounded, and a shortage of file descriptors
//! passes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use prometheus_client::metrics::counter::Counter;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_certs::ServedCertificate;

use crate::activity::Limits;
use crate::connection;

/// How long the loop rests when the system has nothing left to accept with.
const REST: Duration = Duration::from_millis(100);

/// How bytes travel.
#[derive(Clone)]
pub(crate) enum Transport {
    /// As they are.
    Plain,
    /// Over TLS. Failed handshakes are counted.
    Tls { acceptor: TlsAcceptor, errors: Counter },
}

/// Everything about one listening address.
pub(crate) struct Server {
    pub(crate) listener: TcpListener,
    pub(crate) transport: Transport,
    pub(crate) router: Router,
    pub(crate) max_connections: usize,
    pub(crate) limits: Limits,
    /// Cancelled when connections are to be closed as soon as it hurts nobody.
    pub(crate) draining: CancellationToken,
    /// The connections that are open.
    pub(crate) connections: TaskTracker,
}

impl Server {
    /// Accepts connections until `refusing` is cancelled, and serves them until `closing` is: then they are dropped.
    pub(crate) async fn run(self, refusing: CancellationToken, closing: CancellationToken) {
        refusing.run_until_cancelled(self.accept_all(&closing)).await;
        drop(self.listener);
        self.connections.close();
        self.connections.wait().await;
    }

    async fn accept_all(&self, closing: &CancellationToken) {
        let places = Arc::new(Semaphore::new(self.max_connections));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let stream = accept(&self.listener).await;
            let serving =
                self.transport.clone().serve(stream, self.router.clone(), self.limits, self.draining.clone());
            let closing = closing.clone();
            self.connections.spawn(async move {
                closing.run_until_cancelled(serving).await;
                drop(place);
            });
        }
    }
}

impl Transport {
    async fn serve(self, stream: TcpStream, router: Router, limits: Limits, draining: CancellationToken) {
        // Answers are small: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        match self {
            Self::Plain => connection::serve(stream, router, limits, draining).await,
            Self::Tls { acceptor, errors } => {
                let handshake = tokio::time::timeout(limits.handshake, acceptor.accept(stream)).await;
                match handshake.map_err(io::Error::from).flatten() {
                    Ok(stream) => connection::serve(stream, router, limits, draining).await,
                    Err(error) => {
                        errors.inc();
                        tracing::debug!(%error, "a TLS handshake failed");
                    }
                }
            }
        }
    }
}

/// The next connection. A client that left before it was accepted is passed over; anything else, such as too many open
/// files, is waited out: clients queue meanwhile.
async fn accept(listener: &TcpListener) -> TcpStream {
    let mut reported = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                if !reported {
                    tracing::warn!(%error, "failed to accept connections; trying on");
                    reported = true;
                }
                tokio::time::sleep(REST).await;
            }
        }
    }
}

fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// TLS 1.3 and 1.2 with whatever certificate is presented at the time.
pub(crate) fn tls(certificate: ServedCertificate) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificate));
    // The API server calls Services over HTTP/1.1 only; where it would offer more, behaviour stays the same.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // It keeps connections and resumes none, and a resumed one would outlive its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
