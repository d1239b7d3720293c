//! The whole process: bound, serving, stopped.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_certs::Reloader;

use crate::activity::Limits;
use crate::config::Config;
use crate::listen::{BindError, bind};
use crate::metrics::Metrics;
use crate::probes::Readiness;
use crate::routes;
use crate::server::{Server, Transport, tls};
use crate::stop::Stop;

/// Why the webhook did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address is taken or not ours.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system does not say what was bound.
    #[error("failed to read the address that was bound: {0}")]
    Address(#[from] io::Error),
    /// The TLS library refuses the configuration.
    #[error("failed to set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Where the webhook listens: the actual ports, also where port 0 was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Admission reviews.
    pub https: SocketAddr,
    /// `/livez` and `/readyz`.
    pub probes: SocketAddr,
    /// `/metrics`.
    pub metrics: SocketAddr,
}

/// A webhook that holds its ports and serves nothing yet.
pub struct Webhook {
    addresses: Addresses,
    https: Server,
    probes: Server,
    metrics: Server,
    reloader: Reloader,
    reload_interval: Duration,
    stop: Stop,
    lame_duck: Duration,
    grace: Duration,
}

impl Webhook {
    /// Takes the three ports and reads the certificate once, so that with one in place it is ready from the first
    /// moment. Without one it waits, not ready.
    pub async fn bind(config: &Config) -> Result<Self, StartError> {
        let mut reloader = Reloader::new(&config.cert_dir);
        reloader.pass(Timestamp::now()).await;
        let certificate = reloader.served();
        let stop = Stop::default();
        let readiness = Readiness { certificate: certificate.clone(), stopping: stop.stopping.clone() };
        let metrics = Arc::new(Metrics::new(certificate.clone()));

        let server = |listener: TcpListener, transport: Transport, router: Router| Server {
            listener,
            transport,
            router,
            max_connections: config.max_connections,
            limits: Limits::default(),
            draining: stop.draining.clone(),
            connections: TaskTracker::new(),
        };
        let tls = Transport::Tls { acceptor: tls(certificate)?, errors: metrics.handshake_errors() };
        let admission = routes::admission(&metrics, config.max_in_flight);
        let https = server(bind("admission reviews", config.https_address)?, tls, admission);
        let probes =
            server(bind("probes", config.probe_address)?, Transport::Plain, routes::probes(readiness));
        let metrics =
            server(bind("metrics", config.metrics_address)?, Transport::Plain, routes::metrics(metrics));
        Ok(Self {
            addresses: Addresses {
                https: https.listener.local_addr()?,
                probes: probes.listener.local_addr()?,
                metrics: metrics.listener.local_addr()?,
            },
            https,
            probes,
            metrics,
            reloader,
            reload_interval: config.cert_interval,
            stop,
            lame_duck: config.shutdown_lame_duck,
            grace: config.shutdown_grace,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Serves until `shutdown` is cancelled, then stops gracefully: at most the lame-duck time, the grace time and
    /// a second later it is gone.
    pub async fn serve(self, shutdown: CancellationToken) {
        let Self { addresses, https, probes, metrics, reloader, reload_interval, stop, lame_duck, grace } =
            self;
        let Stop { refusing, closing, .. } = &stop;
        let connections = https.connections.clone();
        let tasks = TaskTracker::new();
        tasks.spawn(closing.clone().run_until_cancelled_owned(reloader.run(reload_interval)));
        tasks.spawn(https.run(refusing.clone(), closing.clone()));
        // Probes and metrics are served to the end: how the stop goes is of interest.
        tasks.spawn(probes.run(closing.clone(), closing.clone()));
        tasks.spawn(metrics.run(closing.clone(), closing.clone()));
        let Addresses { https, probes, metrics } = addresses;
        tracing::info!(%https, %probes, %metrics, "listening");

        shutdown.cancelled().await;
        stop.gracefully(&connections, lame_duck, grace).await;
        tasks.close();
        tasks.wait().await;
        tracing::info!("stopped");
    }
}
