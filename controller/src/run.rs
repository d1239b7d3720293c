//! The process: watches feed the caches and the queue, workers make passes, and the ports tell how it goes.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_ops::listen::{BindError, Listener, bind};
use webservice_ops::probes::{self, Check};
use webservice_ops::server::{MAX_CONNECTIONS, Server};

use crate::certificates::{self, CertificateMetrics, Keeper};
use crate::client::{self, ClientError};
use crate::config::Config;
use crate::engine::lease::Lost;
use crate::engine::workers::Limits;
use crate::engine::{ObjectKey, Reconciler, WorkerPool};
use crate::events::{Publisher, hostname};
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::parts::Parts;
use crate::reconcile::Context;
use crate::registered;

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Another process leads now.
    #[error(
        "failed to keep the lease: {0}; another controller takes over, and this one starts again as a standby"
    )]
    Lost(#[from] Lost),
}

/// How long open connections and watches may take to end.
const CLOSING: Duration = Duration::from_secs(2);

/// Runs until `shutdown` is cancelled: then no key is taken any more, running passes finish or are dropped at the deadline.
///
/// # Errors
/// At the start, where an address or the way to the API server is missing; later, where the lease was lost. Everything else
/// that goes wrong is waited out, told by `/readyz` and the log.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), RunError> {
    run_as(config, shutdown, |context| context).await
}

/// The same with passes of the caller's making, such as a test that lets some of them panic.
///
/// # Errors
/// As [`run`].
pub async fn run_as<R: Reconciler<Key = ObjectKey>>(
    config: Config,
    shutdown: CancellationToken,
    passes: impl FnOnce(Context) -> R,
) -> Result<(), RunError> {
    let listeners = Listeners::bind(&config)?;
    let mut registry = webservice_ops::metrics::registry();
    let metrics = Metrics::register(&mut registry, config.concurrency);
    let certificate_metrics = CertificateMetrics::register(&mut registry);
    let Clients { watching, calling, asking, leadership, server, namespace } =
        Clients::connect(&config, &metrics).await?;
    let parts = Parts::new(&config, &metrics);
    registry.register_collector(Box::new(parts.state(leadership.role())));

    // Watches and ports outlive the workers: passes that finish still see the world, and probes still answer.
    let afterwards = CancellationToken::new();
    let tasks = TaskTracker::new();
    let watches = parts.watch(&watching, &afterwards, &tasks);
    let (publisher, send_events) = Publisher::new(calling.clone(), afterwards.clone());
    tasks.spawn(send_events);
    let mut checks = watches.into_checks(&parts.caches);
    checks.push(leadership.check());
    checks.extend(registered::check(&config, asking, &namespace, &afterwards, &tasks));
    let keeper = Keeper::new(&config.webhook, &namespace, &calling, certificate_metrics);
    listeners.serve(&server, checks, registry, &afterwards, &tasks);

    let ended = if shutdown.run_until_cancelled(parts.synced()).await.is_some() {
        let limits =
            Limits { concurrency: config.concurrency, drain: config.shutdown_grace, ..Limits::default() };
        let (wake, webservices) = (Arc::clone(&parts.wake), Arc::clone(&parts.caches.webservices));
        let pool = parts.pool(calling, publisher, metrics, limits, passes);
        let work = async |stop: CancellationToken| {
            wake.lead(&webservices);
            // Certificates first: nothing can be created before the webhook has one.
            tokio::join!(certificates::keep(keeper, &stop), work(&pool, &stop));
        };
        leadership.lead(&shutdown, work).await
    } else {
        Ok(())
    };
    afterwards.cancel();
    tasks.close();
    if timeout(CLOSING, tasks.wait()).await.is_err() {
        tracing::debug!("connections were still open");
    }
    tracing::info!("stopped");
    Ok(ended?)
}

async fn work<R: Reconciler>(pool: &WorkerPool<R>, stop: &CancellationToken) {
    let dropped = pool.run(stop).await;
    if dropped > 0 {
        tracing::warn!(dropped, "passes were dropped at the deadline; the next controller repeats them");
    }
}

/// The addresses that are listened on.
struct Listeners {
    probes: Listener,
    metrics: Listener,
}

impl Listeners {
    fn bind(config: &Config) -> Result<Self, BindError> {
        Ok(Self {
            probes: bind("probes", config.probe_address)?,
            metrics: bind("metrics", config.metrics_address)?,
        })
    }

    fn serve(
        self,
        server: &http::Uri,
        checks: Vec<Check>,
        registry: Registry,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) {
        let (probes, metrics) = (self.probes.address(), self.metrics.address());
        tracing::info!(%probes, %metrics, %server, version = env!("CARGO_PKG_VERSION"), "listening");
        let routes = [
            (self.probes, probes::router(checks)),
            (self.metrics, webservice_ops::metrics::router(registry)),
        ];
        for (listener, router) in routes {
            tasks.spawn(Server::plain(listener, router, MAX_CONNECTIONS).run_until(stop.clone()));
        }
    }
}

/// The ways to the API server, and what this process may do there.
struct Clients {
    watching: Client,
    calling: Client,
    /// For what every replica asks, whether or not it leads.
    asking: Client,
    leadership: Leadership,
    server: http::Uri,
    /// This process's own.
    namespace: String,
}

impl Clients {
    async fn connect(config: &Config, metrics: &Arc<Metrics>) -> Result<Self, ClientError> {
        let cluster = client::config(config.kubeconfig.clone()).await?;
        let count = || {
            let metrics = Arc::clone(metrics);
            move |method: &http::Method, code| metrics.requested(method, code)
        };
        let namespace =
            config.leader_election_namespace.as_ref().unwrap_or(&cluster.default_namespace).clone();
        let leadership = if config.leader_elect {
            let client = client::electing(&cluster, count())?;
            Leadership::candidate(client, &namespace, &hostname().unwrap_or_default())
        } else {
            Leadership::unopposed()
        };
        Ok(Self {
            watching: client::watching(&cluster, count())?,
            calling: client::calling(&cluster, count(), leadership.fence())?,
            asking: client::calling(&cluster, count(), Leadership::unopposed().fence())?,
            leadership,
            server: cluster.cluster_url,
            namespace,
        })
    }
}
