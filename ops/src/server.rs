//! Accepting connections: handshakes run beside the loop, their number is bounded, and a shortage of file descriptors
//! passes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use prometheus_client::metrics::counter::Counter;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::{TlsAcceptor, rustls};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use crate::activity::Limits;
use crate::connection;
use crate::listen::Listener;
pub use crate::service::Service;

/// Connections that an address has at the same time where nobody says otherwise.
pub const MAX_CONNECTIONS: usize = 2048;

/// How long the loop rests when the system has nothing left to accept with.
const REST: Duration = Duration::from_millis(100);

/// How bytes travel.
#[derive(Clone)]
pub enum Transport {
    /// As they are.
    Plain,
    /// Over TLS.
    Tls {
        /// Makes the handshakes.
        acceptor: TlsAcceptor,
        /// Counts those that fail.
        errors: Counter,
    },
}

/// Everything about one listening address.
pub struct Server<S = Router> {
    /// Where clients come in.
    pub listener: Listener,
    /// How they are talked to.
    pub transport: Transport,
    /// What is served to them. Bodies are for it to bound.
    pub service: S,
    /// Most connections at a time; more wait to be accepted.
    pub max_connections: usize,
    /// How long a connection may take over what.
    pub limits: Limits,
    /// Cancelled when connections are to be closed as soon as it hurts nobody.
    pub draining: CancellationToken,
    /// The connections that are open.
    pub connections: TaskTracker,
}

impl<S: Service> Server<S> {
    /// One that serves over plain HTTP and drains nothing.
    #[must_use]
    pub fn plain(listener: Listener, service: S, max_connections: usize) -> Self {
        Self {
            listener,
            transport: Transport::Plain,
            service,
            max_connections,
            limits: Limits::default(),
            draining: CancellationToken::new(),
            connections: TaskTracker::new(),
        }
    }

    /// Serves until `stop` is cancelled, and drops what is open then: for clients that come again, such as those of probes.
    pub async fn run_until(self, stop: CancellationToken) {
        self.run(stop.clone(), stop).await;
    }

    /// Accepts connections until `refusing` is cancelled, and serves them until `closing` is: then they are dropped.
    pub async fn run(self, refusing: CancellationToken, closing: CancellationToken) {
        refusing.run_until_cancelled(self.accept_all(&closing)).await;
        drop(self.listener);
        self.connections.close();
        self.connections.wait().await;
    }

    async fn accept_all(&self, closing: &CancellationToken) {
        let places = Arc::new(Semaphore::new(self.max_connections));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let stream = accept(&self.listener.socket).await;
            let serving = self.transport.clone().serve(
                stream,
                self.service.clone(),
                self.limits,
                self.draining.clone(),
            );
            let closing = closing.clone();
            self.connections.spawn(async move {
                closing.run_until_cancelled(serving).await;
                drop(place);
            });
        }
    }
}

impl Transport {
    async fn serve<S: Service>(
        self,
        stream: TcpStream,
        service: S,
        limits: Limits,
        draining: CancellationToken,
    ) {
        // Answers are small: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        match self {
            Self::Plain => connection::serve(stream, service, limits, draining).await,
            Self::Tls { acceptor, errors } => {
                let handshake = tokio::time::timeout(limits.handshake, acceptor.accept(stream)).await;
                match handshake.map_err(io::Error::from).flatten() {
                    Ok(stream) => connection::serve(stream, service, limits, draining).await,
                    Err(error) => {
                        errors.inc();
                        report(&error);
                    }
                }
            }
        }
    }
}

/// A client that is asked for a certificate and has none is misconfigured; whatever else goes wrong may be a port scan.
fn report(error: &io::Error) {
    let fault = error.get_ref().and_then(|fault| fault.downcast_ref());
    if let Some(rustls::Error::NoCertificatesPresented) = fault {
        tracing::warn!("refused a client without a certificate");
    } else {
        tracing::debug!(%error, "a TLS handshake failed");
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

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;
    use crate::listen::bind;

    const DEADLINE: Duration = Duration::from_secs(20);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

    fn server(max_connections: usize) -> Server {
        let listener = bind("tests", "127.0.0.1:0".parse().unwrap()).unwrap();
        Server::plain(listener, Router::new().route("/", get(|| async { "hi" })), max_connections)
    }

    async fn answers(client: &mut TcpStream) -> bool {
        client.write_all(REQUEST).await.unwrap();
        let mut status = [0; b"HTTP/1.1 200 OK".len()];
        client.read_exact(&mut status).await.is_ok() && status == *b"HTTP/1.1 200 OK"
    }

    #[tokio::test]
    async fn a_stop_drops_what_is_open_and_frees_the_address() {
        let (server, stop) = (server(10), CancellationToken::new());
        let address = server.listener.address();
        let running = tokio::spawn(server.run_until(stop.clone()));
        let mut kept = TcpStream::connect(address).await.unwrap();
        assert!(timeout(DEADLINE, answers(&mut kept)).await.unwrap());

        stop.cancel();
        timeout(DEADLINE, running).await.expect("the server goes on").unwrap();
        bind("tests", address).unwrap();
    }

    #[tokio::test]
    async fn clients_beyond_the_limit_wait_for_a_place() {
        let server = server(1);
        let address = server.listener.address();
        let places = server.connections.clone();
        tokio::spawn(server.run_until(CancellationToken::new()));
        let mut first = TcpStream::connect(address).await.unwrap();
        assert!(timeout(DEADLINE, answers(&mut first)).await.unwrap());

        let mut second = TcpStream::connect(address).await.unwrap();
        let mut waiting = Box::pin(answers(&mut second));
        timeout(Duration::from_millis(50), &mut waiting).await.expect_err("no place is free");
        assert_eq!(places.len(), 1);
        drop(first);
        assert!(timeout(DEADLINE, waiting).await.unwrap());
    }
}
