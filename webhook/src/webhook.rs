//! The whole process: bound, serving, stopped.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_certs::Reloader;
use webservice_ops::listen::{BindError, bind};
use webservice_ops::server::{Server, Transport};
use webservice_ops::{metrics, probes};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::stop::Stop;
use crate::{readiness, routes, tls};

/// Why the webhook did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address is taken or not ours.
    #[error(transparent)]
    Bind(#[from] BindError),
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
        let mut registry = metrics::registry();
        let counted = Metrics::register(&mut registry, certificate.clone());
        let checks = readiness::checks(certificate.clone(), stop.stopping.clone());

        let server = |purpose, address, router| {
            Ok::<_, BindError>(Server::plain(bind(purpose, address)?, router, config.max_connections))
        };
        let admission = routes::admission(&counted, config.max_in_flight);
        let errors = counted.handshake_errors();
        Ok(Self {
            https: Server {
                transport: Transport::Tls { acceptor: tls::acceptor(certificate)?, errors },
                draining: stop.draining.clone(),
                ..server("admission reviews", config.https_address, admission)?
            },
            probes: server("probes", config.probe_address, probes::router(checks))?,
            metrics: server("metrics", config.metrics_address, metrics::router(registry))?,
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
        Addresses {
            https: self.https.listener.address(),
            probes: self.probes.listener.address(),
            metrics: self.metrics.listener.address(),
        }
    }

    /// Serves until `shutdown` is cancelled, then stops gracefully: at most the lame-duck time, the grace time and
    /// a second later it is gone.
    pub async fn serve(self, shutdown: CancellationToken) {
        let addresses = self.addresses();
        let Self { https, probes, metrics, reloader, reload_interval, stop, lame_duck, grace } = self;
        let Stop { refusing, closing, .. } = &stop;
        let connections = https.connections.clone();
        let tasks = TaskTracker::new();
        tasks.spawn(closing.clone().run_until_cancelled_owned(reloader.run(reload_interval)));
        tasks.spawn(https.run(refusing.clone(), closing.clone()));
        // Probes and metrics are served to the end: how the stop goes is of interest.
        tasks.spawn(probes.run_until(closing.clone()));
        tasks.spawn(metrics.run_until(closing.clone()));
        let Addresses { https, probes, metrics } = addresses;
        tracing::info!(%https, %probes, %metrics, "listening");

        shutdown.cancelled().await;
        stop.gracefully(&connections, lame_duck, grace).await;
        tasks.close();
        tasks.wait().await;
        tracing::info!("stopped");
    }
}
