//! The whole process: bound, serving, stopped.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_api::rules::Policy;
use webservice_certs::{ClientAuthorities, Reloader};
use webservice_ops::latest::{FileReader, Latest};
use webservice_ops::listen::{BindError, bind};
use webservice_ops::probes::Check;
use webservice_ops::server::{Server, Transport};
use webservice_ops::{debug, metrics, probes};

use crate::clients::{self, ClientVerifier};
use crate::config::Config;
use crate::metrics::{CLIENT_CA, Metrics, POLICY};
use crate::routes::Admission;
use crate::stop::Stop;
use crate::terms::{self, LatestTerms};
use crate::{readiness, tls};

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
    https: Server<Admission>,
    probes: Server,
    metrics: Server,
    debug: Option<Server>,
    reloader: Reloader,
    policy: Option<FileReader<Policy>>,
    client_ca: Option<FileReader<ClientAuthorities>>,
    reload_interval: Duration,
    stop: Stop,
    lame_duck: Duration,
    grace: Duration,
}

impl Webhook {
    /// Takes the three ports and reads certificate, policy and client CA once, so that with all in place it is ready from the
    /// first moment. For what is missing or cannot be used it waits, not ready: during a rollout the replicas before it go
    /// on with what they have, and it takes up what is mended without a restart. It never goes on without a policy that was
    /// asked for.
    pub async fn bind(config: &Config) -> Result<Self, StartError> {
        let mut reloader = Reloader::new(&config.cert_dir);
        reloader.pass(Timestamp::now()).await;
        let certificate = reloader.served();
        let stop = Stop::default();
        let mut registry = metrics::registry();
        let counted = Metrics::register(&mut registry, certificate.clone());
        let mut checks = readiness::checks(certificate.clone(), stop.stopping.clone());
        let mut watched = Watched { metrics: &counted, checks: &mut checks };
        let policy = watched.read(POLICY, config.policy.as_deref(), terms::parse_policy).await;
        let client_ca = watched.read(CLIENT_CA, config.client_ca.as_deref(), clients::parse).await;
        let terms = LatestTerms {
            policy: policy.as_ref().map_or_else(|| Latest::fixed(Policy::default()), FileReader::latest),
            exempt: config.exempt_users.clone().into(),
        };
        let verifier = client_ca.as_ref().map(|ca| ClientVerifier::new(ca.latest(), &config.client_names));

        let most = config.max_connections;
        let admission = Admission::new(&counted, config.max_in_flight, &terms);
        let errors = counted.handshake_errors();
        let server =
            |what, address, router| Ok::<_, BindError>(Server::plain(bind(what, address)?, router, most));
        let debug_address = config.debug.debug_address;
        Ok(Self {
            https: Server {
                transport: Transport::Tls { acceptor: tls::acceptor(certificate, verifier)?, errors },
                draining: stop.draining.clone(),
                ..Server::plain(bind("admission reviews", config.https_address)?, admission, most)
            },
            probes: server("probes", config.probe_address, probes::router(vec![], checks))?,
            metrics: server("metrics", config.metrics_address, metrics::router(registry))?,
            debug: debug_address.map(|address| server("debug", address, debug::log())).transpose()?,
            reloader,
            policy,
            client_ca,
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
        let Self { https, probes, metrics, debug: debugging, stop, lame_duck, grace, .. } = self;
        let Stop { refusing, closing, .. } = &stop;
        let connections = https.connections.clone();
        let tasks = TaskTracker::new();
        tasks.spawn(closing.clone().run_until_cancelled_owned(self.reloader.run(self.reload_interval)));
        if let Some(policy) = self.policy {
            tasks.spawn(closing.clone().run_until_cancelled_owned(policy.run(self.reload_interval)));
        }
        if let Some(client_ca) = self.client_ca {
            tasks.spawn(closing.clone().run_until_cancelled_owned(client_ca.run(self.reload_interval)));
        }
        tasks.spawn(https.run(refusing.clone(), closing.clone()));
        // Probes and metrics are served to the end: how the stop goes is of interest.
        tasks.spawn(probes.run_until(closing.clone()));
        tasks.spawn(metrics.run_until(closing.clone()));
        if let Some(debugging) = debugging {
            let address = debugging.listener.address();
            tracing::info!(%address, "debug endpoints are served");
            tasks.spawn(debugging.run_until(closing.clone()));
        }
        let Addresses { https, probes, metrics } = addresses;
        tracing::info!(%https, %probes, %metrics, "listening");

        shutdown.cancelled().await;
        stop.gracefully(&connections, lame_duck, grace).await;
        tasks.close();
        tasks.wait().await;
        tracing::info!("stopped");
    }
}

/// Where is told of the files that are read.
struct Watched<'w> {
    metrics: &'w Metrics,
    checks: &'w mut Vec<Check>,
}

impl Watched<'_> {
    /// Reads a file that was asked for, if one was.
    async fn read<T: Send + Sync + 'static>(
        &mut self,
        what: &'static str,
        path: Option<&Path>,
        parse: fn(&[u8]) -> Result<T, String>,
    ) -> Option<FileReader<T>> {
        let mut reader = FileReader::new(what, path?, parse, self.metrics.file(what));
        reader.pass().await;
        self.checks.push(readiness::was_read(what, reader.latest()));
        Some(reader)
    }
}
