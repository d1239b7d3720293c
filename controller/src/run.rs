//! The process: watches feed the caches and the queue, workers make passes, and the ports tell how it goes.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_ops::listen::BindError;
use webservice_ops::server::Transport;
use webservice_ops::{debug, probes};

use crate::certificates::{self, CertificateMetrics, Keeper};
use crate::client::{self, ClientError};
use crate::config::Config;
use crate::engine::lease::Lost;
use crate::engine::workers::Limits;
use crate::engine::{ObjectKey, Reconciler, WorkerPool};
use crate::events::{Publisher, hostname};
use crate::health;
use crate::heard::Heard;
use crate::leadership::{Leadership, Standing};
use crate::metrics::{Metrics, State};
use crate::parts::Parts;
use crate::ports::{Ports, Routes};
use crate::reconcile::Context;
use crate::registered;
use crate::scrape::{self, TlsError};

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The metrics cannot be served as they should be.
    #[error(transparent)]
    Tls(#[from] TlsError),
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
    let listening = Ports::bind(&config)?;
    let mut registry = webservice_ops::metrics::registry();
    let metrics = Metrics::register(&mut registry, config.concurrency);
    let certificate_metrics = CertificateMetrics::register(&mut registry);
    let Clients { watching, calling, asking, reviewing, leadership, server, heard, namespace } =
        Clients::connect(&config, &metrics).await?;
    let parts = Parts::new(&config, &metrics);
    let limits =
        Limits { concurrency: config.concurrency, drain: config.shutdown_grace, ..Limits::default() };

    // Watches and ports outlive the workers: passes that finish still see the world, and probes still answer.
    let afterwards = CancellationToken::new();
    let tasks = TaskTracker::new();
    let watches = parts.watch(&watching, &afterwards, &tasks);
    let (publisher, send_events) = Publisher::new(calling.clone(), parts.is_busy(), afterwards.clone());
    tasks.spawn(send_events);
    let vitals = parts.vitals(watches, heard, leadership.standing());
    registry.register_collector(Box::new(State(vitals.clone())));
    let transport = transport(&config, &metrics, &afterwards, &tasks).await?;
    let keeper = Keeper::new(&config.webhook, &namespace, &calling, certificate_metrics);
    let mut ready = health::ready(&vitals);
    ready.extend(registered::check(&config, asking, leadership.standing(), &namespace, &afterwards, &tasks));
    let routes = Routes {
        probes: probes::router(health::alive(&vitals, &limits), ready),
        metrics: (scrapes(registry, reviewing), transport),
        debug: debug::log().merge(debug::state(move || crate::debug::state(&vitals))),
    };
    listening.serve(routes, &server, &afterwards, &tasks);

    let ended = if shutdown.run_until_cancelled(parts.synced()).await.is_some() {
        let serving = parts.serve_what_is_synced();
        let pool = parts.pool(calling, publisher, &metrics, limits, passes);
        let work = async |stop: CancellationToken| {
            // Beside the passes, not before them: what exists is served while the webhook still waits for its certificate.
            let kept = certificates::keep(keeper, &stop);
            tokio::join!(kept, stop.run_until_cancelled(serving), work(&pool, &stop));
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

/// How the metrics travel. With a check of tokens never in the clear.
async fn transport(
    config: &Config,
    metrics: &Metrics,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<Transport, TlsError> {
    let errors = metrics.handshake_errors.clone();
    match &config.metrics_tls_dir {
        Some(directory) => scrape::tls_from(directory, errors, stop, tasks).await,
        None if config.metrics_auth => scrape::self_signed_tls(errors),
        None => Ok(Transport::Plain),
    }
}

fn scrapes(registry: Registry, reviewing: Option<Client>) -> axum::Router {
    let everybody = webservice_ops::metrics::router(registry);
    match reviewing {
        Some(client) => scrape::behind_rbac(everybody, client),
        None => everybody,
    }
}

async fn work<R: Reconciler>(pool: &WorkerPool<R>, stop: &CancellationToken) {
    let dropped = pool.run(stop).await;
    if dropped > 0 {
        tracing::warn!(dropped, "passes were dropped at the deadline; the next controller repeats them");
    }
}

/// The ways to the API server, and what this process may do there.
struct Clients {
    watching: Client,
    calling: Client,
    /// For what every replica asks, whether or not it leads.
    asking: Client,
    /// Where those who read the metrics are asked for a token.
    reviewing: Option<Client>,
    leadership: Leadership,
    server: http::Uri,
    heard: Arc<Heard>,
    /// This process's own.
    namespace: String,
}

impl Clients {
    async fn connect(config: &Config, metrics: &Arc<Metrics>) -> Result<Self, ClientError> {
        let cluster = client::config(config.kubeconfig.clone()).await?;
        let heard = Arc::<Heard>::default();
        let host: Arc<str> =
            cluster.cluster_url.authority().map_or("", |authority| authority.as_str()).into();
        let count = || {
            let (metrics, heard, host) = (Arc::clone(metrics), Arc::clone(&heard), Arc::clone(&host));
            move |method: &http::Method, code| {
                metrics.requested(&host, method, code);
                heard.answered(code);
            }
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
            watching: client::watching(&cluster, count(), &heard)?,
            calling: client::calling(&cluster, count(), leadership.standing().fence())?,
            asking: client::calling(&cluster, count(), Standing::unopposed().fence())?,
            reviewing: config.metrics_auth.then(|| client::reviewing(&cluster, count())).transpose()?,
            leadership,
            server: cluster.cluster_url,
            heard,
            namespace,
        })
    }
}
