//! The process: watches feed the caches and the queue, workers make passes, and the ports tell how it goes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_api::constants::CHILD_SELECTOR;
use webservice_ops::listen::{BindError, bind};
use webservice_ops::probes::{self, Check};

use crate::client::{self, ClientError};
use crate::config::Config;
use crate::dependencies::Dependents;
use crate::engine::feeder::watch_config;
use crate::engine::workers::Limits;
use crate::engine::{
    Backoff, Feeder, ObjectKey, OwnWrites, Priority, Scope, Sink, Store, Watched, WorkQueue, WorkerPool,
};
use crate::events::Publisher;
use crate::metrics::{Metrics, State};
use crate::observe::Caches;
use crate::reconcile::Context;
use crate::records::{ChildRecord, RawChild, RawWebService, WebServiceRecord};
use crate::sinks::Wake;
use crate::writes::{Guard, Writes};

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An address was lost after it had been bound.
    #[error("failed to serve: {0}")]
    Serve(#[from] std::io::Error),
}

/// Runs until `shutdown` is cancelled: then no key is taken any more, running passes finish or are dropped at the deadline.
///
/// # Errors
/// Only at the start. What goes wrong later is waited out, told by `/readyz` and the log.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), RunError> {
    let probe_listener = bind("probes", config.probe_address)?;
    let metrics_listener = bind("metrics", config.metrics_address)?;
    let (probe_address, metrics_address) = (probe_listener.local_addr()?, metrics_listener.local_addr()?);
    let kube_config = client::config(config.kubeconfig.clone()).await?;

    let mut registry = Registry::default();
    registry.register_collector(Box::new(webservice_ops::metrics::Process));
    let metrics = Metrics::register(&mut registry, config.concurrency);
    let count = || {
        let metrics = Arc::clone(&metrics);
        move |method: &http::Method, code| metrics.requested(method, code)
    };
    let watching = client::watching(&kube_config, count())?;
    let calling = client::calling(&kube_config, count())?;

    let parts = Parts::new(&config, &metrics);
    registry.register_collector(Box::new(parts.state()));
    // Watches and ports outlive the workers: passes that finish still see the world, and probes still answer.
    let afterwards = CancellationToken::new();
    let tasks = TaskTracker::new();
    let watches = parts.watch(&watching, &afterwards, &tasks);
    let (publisher, send_events) = Publisher::new(calling.clone(), afterwards.clone());
    tasks.spawn(send_events);
    let checks = watches.into_checks(&parts.caches);
    tasks.spawn(serve(probe_listener, probes::router(checks), afterwards.clone()));
    tasks.spawn(serve(metrics_listener, webservice_ops::metrics::router(registry), afterwards.clone()));
    tracing::info!(
        probes = %probe_address,
        metrics = %metrics_address,
        server = %kube_config.cluster_url,
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );

    if shutdown.run_until_cancelled(parts.synced()).await.is_some() {
        tracing::info!(
            webservices = parts.caches.webservices.len(),
            children = parts.caches.children.len(),
            "caches are synced"
        );
        let limits =
            Limits { concurrency: config.concurrency, drain: config.shutdown_grace, ..Limits::default() };
        let dropped = parts.pool(calling, publisher, metrics, limits).run(&shutdown).await;
        if dropped > 0 {
            tracing::warn!(dropped, "passes were dropped at the deadline; the next controller repeats them");
        }
    }
    afterwards.cancel();
    tasks.close();
    if tokio::time::timeout(Duration::from_secs(2), tasks.wait()).await.is_err() {
        tracing::debug!("connections were still open");
    }
    tracing::info!("stopped");
    Ok(())
}

/// What watches, workers and metrics share.
struct Parts {
    scopes: Vec<Scope>,
    caches: Caches,
    queue: Arc<WorkQueue<ObjectKey>>,
    own_writes: Arc<OwnWrites<ObjectKey>>,
    wake: Arc<Wake>,
}

impl Parts {
    fn new(config: &Config, metrics: &Arc<Metrics>) -> Self {
        let scopes = config.scopes();
        let caches = Caches {
            webservices: Store::new(scopes.clone()).into(),
            children: Store::new(scopes.clone()).into(),
        };
        let queue = Arc::new(WorkQueue::new(Arc::<Metrics>::clone(metrics)));
        let woken = Arc::clone(&queue);
        let own_writes = Arc::new(OwnWrites::new(move |key| woken.add(key, Priority::Live)));
        let wake = Arc::new(Wake {
            queue: Arc::clone(&queue),
            own_writes: Arc::clone(&own_writes),
            dependents: Dependents::default(),
            metrics: Arc::clone(metrics),
        });
        Self { scopes, caches, queue, own_writes, wake }
    }

    fn state(&self) -> State {
        State {
            caches: self.caches.clone(),
            queue: Arc::clone(&self.queue),
            own_writes: Arc::clone(&self.own_writes),
        }
    }

    async fn synced(&self) {
        self.caches.webservices.wait_synced().await;
        self.caches.children.wait_synced().await;
    }

    /// Starts the watches of both kinds, one per scope.
    fn watch(&self, client: &Client, stop: &CancellationToken, tasks: &TaskTracker) -> Watches {
        let mut watches = Watches::default();
        for scope in &self.scopes {
            let watch = Watch { client, scope, stop, tasks };
            let every = watch_config();
            let ours = watch_config().labels(CHILD_SELECTOR);
            watches.webservices.push(watch.start::<RawWebService, _>(
                every,
                &self.caches.webservices,
                &self.wake,
            ));
            watches.children.push(watch.start::<RawChild, _>(ours, &self.caches.children, &self.wake));
        }
        watches
    }

    fn pool(
        self,
        client: Client,
        events: Publisher,
        metrics: Arc<Metrics>,
        limits: Limits,
    ) -> WorkerPool<Context> {
        let guard = Guard { own_writes: Arc::clone(&self.own_writes), caches: self.caches.clone() };
        let context = Context {
            caches: self.caches,
            writes: Arc::new(Writes::new(client, Some(guard))),
            events: Box::new(events),
            own_writes: self.own_writes,
            metrics: Arc::clone(&metrics),
        };
        WorkerPool::new(context, self.queue, Arc::new(Backoff::new()), metrics, limits)
    }
}

/// How to start one watch.
struct Watch<'w> {
    client: &'w Client,
    scope: &'w Scope,
    stop: &'w CancellationToken,
    tasks: &'w TaskTracker,
}

impl Watch<'_> {
    fn start<K, V>(&self, config: watcher::Config, store: &Arc<Store<V>>, sink: &Arc<Wake>) -> Arc<Feeder<V>>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + 'static,
        V: From<K> + PartialEq + Send + Sync + 'static,
        Wake: Sink<V>,
    {
        let watched = Watched::of::<K>(self.scope.clone());
        let feeder = Arc::new(Feeder::new(watched, Arc::clone(store), Arc::<Wake>::clone(sink)));
        let api: Api<K> = match self.scope {
            Scope::Cluster => Api::all(self.client.clone()),
            Scope::Namespace(namespace) => Api::namespaced(self.client.clone(), namespace),
        };
        let (running, stop) = (Arc::clone(&feeder), self.stop.clone());
        self.tasks.spawn(async move {
            running.run(|| watcher(api.clone(), config.clone()), |object: K| V::from(object), &stop).await;
        });
        feeder
    }
}

/// The running watches.
#[derive(Default)]
struct Watches {
    webservices: Vec<Arc<Feeder<WebServiceRecord>>>,
    children: Vec<Arc<Feeder<ChildRecord>>>,
}

impl Watches {
    /// What must hold for the controller to be ready.
    fn into_checks(self, caches: &Caches) -> Vec<Check> {
        let Caches { webservices, children } = caches.clone();
        let synced = move || {
            let is_synced = webservices.is_synced() && children.is_synced();
            is_synced.then_some(()).ok_or_else(|| "the first full lists are not complete".to_owned())
        };
        let working = move || {
            let problems = self.webservices.iter().map(|feeder| feeder.problem());
            let problems = problems.chain(self.children.iter().map(|feeder| feeder.problem()));
            let told: Vec<_> = problems.flatten().map(|problem| problem.to_string()).collect();
            if told.is_empty() { Ok(()) } else { Err(told.join("; ")) }
        };
        vec![Check::new("caches-synced", synced), Check::new("watches", working)]
    }
}

async fn serve(listener: TcpListener, routes: Router, stop: CancellationToken) {
    let server = axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = server.await {
        tracing::error!("failed to serve: {error}");
    }
}
