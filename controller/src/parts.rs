//! What watches, workers and metrics share, and how they are put together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_api::constants::CHILD_SELECTOR;
use webservice_ops::probes::Check;

use crate::config::Config;
use crate::dependencies::Dependents;
use crate::engine::feeder::watch_config;
use crate::engine::lease::Role;
use crate::engine::workers::Limits;
use crate::engine::{
    Backoff, Feeder, ObjectKey, OwnWrites, Priority, Reconciler, Scope, Sink, Store, Watched, WorkQueue,
    WorkerPool,
};
use crate::events::Publisher;
use crate::metrics::{Metrics, State};
use crate::observe::Caches;
use crate::reconcile::Context;
use crate::records::{ChildRecord, RawChild, RawWebService, WebServiceRecord};
use crate::sinks::Wake;
use crate::writes::{Guard, Writes};

/// What watches, workers and metrics share.
pub(crate) struct Parts {
    scopes: Vec<Scope>,
    pub(crate) caches: Caches,
    queue: Arc<WorkQueue<ObjectKey>>,
    own_writes: Arc<OwnWrites<ObjectKey>>,
    pub(crate) wake: Arc<Wake>,
}

impl Parts {
    pub(crate) fn new(config: &Config, metrics: &Arc<Metrics>) -> Self {
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
            backoff: Arc::new(Backoff::new()),
            own_writes: Arc::clone(&own_writes),
            dependents: Dependents::default(),
            metrics: Arc::clone(metrics),
            is_leading: AtomicBool::new(false),
        });
        Self { scopes, caches, queue, own_writes, wake }
    }

    pub(crate) fn state(&self, role: watch::Receiver<Role>) -> State {
        State {
            role,
            caches: self.caches.clone(),
            queue: Arc::clone(&self.queue),
            own_writes: Arc::clone(&self.own_writes),
        }
    }

    /// Tells whether keys wait for a worker.
    pub(crate) fn is_busy(&self) -> impl Fn() -> bool + Send + use<> {
        let queue = Arc::clone(&self.queue);
        move || !queue.is_empty()
    }

    pub(crate) async fn synced(&self) {
        self.caches.webservices.wait_synced().await;
        self.caches.children.wait_synced().await;
        let Caches { webservices, children } = &self.caches;
        tracing::info!(webservices = webservices.len(), children = children.len(), "caches are synced");
    }

    /// Starts the watches of both kinds, one per scope.
    pub(crate) fn watch(&self, client: &Client, stop: &CancellationToken, tasks: &TaskTracker) -> Watches {
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

    pub(crate) fn pool<R: Reconciler<Key = ObjectKey>>(
        self,
        client: Client,
        events: Publisher,
        metrics: Arc<Metrics>,
        limits: Limits,
        passes: impl FnOnce(Context) -> R,
    ) -> WorkerPool<R> {
        let guard = Guard { own_writes: Arc::clone(&self.own_writes), caches: self.caches.clone() };
        let context = Context {
            caches: self.caches,
            writes: Arc::new(Writes::new(client, Some(guard))),
            events: Box::new(events),
            own_writes: self.own_writes,
            metrics: Arc::clone(&metrics),
        };
        WorkerPool::new(passes(context), self.queue, Arc::clone(&self.wake.backoff), metrics, limits)
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
pub(crate) struct Watches {
    webservices: Vec<Arc<Feeder<WebServiceRecord>>>,
    children: Vec<Arc<Feeder<ChildRecord>>>,
}

impl Watches {
    /// What must hold for the controller to be ready.
    pub(crate) fn into_checks(self, caches: &Caches) -> Vec<Check> {
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
