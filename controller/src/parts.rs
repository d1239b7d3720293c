//! What watches, workers and metrics share, and how they are put together.

use std::sync::{Arc, RwLock};

use futures::FutureExt;
use futures::future::{join_all, select_all};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_api::constants::CHILD_SELECTOR;

use crate::config::Config;
use crate::dependencies::Dependents;
use crate::engine::feeder::watch_config;
use crate::engine::workers::Limits;
use crate::engine::{
    Backoff, Feeder, ObjectKey, OwnWrites, Priority, Reconciler, Scope, Sink, Store, Watched, WorkQueue,
    WorkerPool,
};
use crate::events::Publisher;
use crate::heard::Heard;
use crate::leadership::Standing;
use crate::metrics::Metrics;
use crate::observe::Caches;
use crate::reconcile::Context;
use crate::records::{RawChild, RawWebService};
use crate::sinks::Wake;
use crate::traced::Traced;
use crate::vitals::{Vitals, Watches};
use crate::writes::{Guard, Writes};

/// What watches, workers and metrics share.
pub(crate) struct Parts {
    scopes: Vec<Scope>,
    caches: Caches,
    queue: Arc<WorkQueue<ObjectKey>>,
    own_writes: Arc<OwnWrites<ObjectKey>>,
    wake: Arc<Wake>,
}

impl Parts {
    pub(crate) fn new(config: &Config, metrics: &Arc<Metrics>) -> Self {
        let scopes = config.scopes();
        let caches = Caches {
            webservices: Store::new(scopes.clone()).into(),
            children: Store::new(scopes.clone()).into(),
        };
        let queue = Arc::new(WorkQueue::new(Arc::new(metrics.queue.clone())));
        let woken = Arc::clone(&queue);
        let own_writes = Arc::new(OwnWrites::new(move |key| woken.add(key, Priority::Live)));
        let wake = Arc::new(Wake {
            queue: Arc::clone(&queue),
            backoff: Arc::new(Backoff::new()),
            own_writes: Arc::clone(&own_writes),
            dependents: Dependents::default(),
            metrics: Arc::clone(metrics),
            served: RwLock::default(),
        });
        Self { scopes, caches, queue, own_writes, wake }
    }

    /// What can be told of it all.
    pub(crate) fn vitals(&self, watches: Watches, heard: Arc<Heard>, standing: Standing) -> Vitals {
        Vitals {
            caches: self.caches.clone(),
            queue: Arc::clone(&self.queue),
            backoff: Arc::clone(&self.wake.backoff),
            own_writes: Arc::clone(&self.own_writes),
            watches,
            heard,
            standing,
        }
    }

    /// Tells whether keys wait for a worker.
    pub(crate) fn is_busy(&self) -> impl Fn() -> bool + Send + use<> {
        let queue = Arc::clone(&self.queue);
        move || !queue.is_empty()
    }

    /// Waits until the caches show all of one scope: from then on there is something to work on. The others may take longer,
    /// or for ever where a right is missing.
    pub(crate) async fn synced(&self) {
        let scopes = self.scopes.iter().map(|scope| self.caches.wait_synced_in(scope).boxed());
        select_all(scopes).await;
        let Caches { webservices, children } = &self.caches;
        tracing::info!(webservices = webservices.len(), children = children.len(), "caches are synced");
    }

    /// Has each scope worked on, as soon as the caches show all of it.
    pub(crate) fn serve_what_is_synced(&self) -> impl Future<Output = ()> + Send + use<> {
        let (caches, wake) = (self.caches.clone(), Arc::clone(&self.wake));
        let scopes = self.scopes.clone();
        async move {
            let (caches, wake) = (&caches, &wake);
            let serve = |scope: Scope| async move {
                caches.wait_synced_in(&scope).await;
                wake.serve(&scope, &caches.webservices);
            };
            join_all(scopes.into_iter().map(serve)).await;
        }
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
        metrics: &Arc<Metrics>,
        limits: Limits,
        passes: impl FnOnce(Context) -> R,
    ) -> WorkerPool<Traced<R>> {
        let guard = Guard { own_writes: Arc::clone(&self.own_writes), caches: self.caches.clone() };
        let context = Context {
            caches: self.caches,
            writes: Arc::new(Writes::new(client, Some(guard))),
            events: Box::new(events),
            own_writes: self.own_writes,
            metrics: Arc::clone(metrics),
        };
        let (backoff, observer) = (Arc::clone(&self.wake.backoff), Arc::new(metrics.passes.clone()));
        WorkerPool::new(Traced(passes(context)), self.queue, backoff, observer, limits)
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
