//! What can be told of the process while it works: read by `/metrics`, `/readyz`, `/livez` and `/debug/state`.

use std::sync::Arc;

use tokio::time::Instant;

use crate::engine::feeder::{Problem, Watched};
use crate::engine::{Backoff, Feeder, ObjectKey, OwnWrites, WorkQueue};
use crate::heard::Heard;
use crate::leadership::Standing;
use crate::observe::Caches;
use crate::records::{ChildRecord, WebServiceRecord};

/// Handles to everything that has a state worth telling. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Vitals {
    /// The caches.
    pub caches: Caches,
    /// The queue.
    pub queue: Arc<WorkQueue<ObjectKey>>,
    /// The failing keys.
    pub backoff: Arc<Backoff<ObjectKey>>,
    /// The own-write guard.
    pub own_writes: Arc<OwnWrites<ObjectKey>>,
    /// The watches.
    pub watches: Watches,
    /// When the API server was last heard of.
    pub heard: Arc<Heard>,
    /// The part of this process in the election.
    pub standing: Standing,
}

impl Vitals {
    /// Those of a process that leads and has nothing to do.
    #[must_use]
    pub fn idle() -> Self {
        use crate::engine::{Scope, Store};
        Self {
            caches: Caches {
                webservices: Store::new([Scope::Cluster]).into(),
                children: Store::new([Scope::Cluster]).into(),
            },
            queue: Arc::new(WorkQueue::new(Arc::new(()))),
            backoff: Arc::default(),
            own_writes: Arc::new(OwnWrites::new(drop)),
            watches: Watches::default(),
            heard: Arc::default(),
            standing: Standing::unopposed(),
        }
    }
}

/// The running watches of both kinds, one per scope.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    /// Of WebServices.
    pub webservices: Vec<Arc<Feeder<WebServiceRecord>>>,
    /// Of children.
    pub children: Vec<Arc<Feeder<ChildRecord>>>,
}

/// How one watch is.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// What is watched.
    pub watched: Watched,
    /// When the last event came.
    pub last_event: Option<Instant>,
    /// What keeps it from working now.
    pub problem: Option<Arc<Problem>>,
}

impl Watches {
    /// How they are.
    pub fn states(&self) -> impl Iterator<Item = WatchState> {
        let webservices = self.webservices.iter().map(|feeder| state(feeder));
        webservices.chain(self.children.iter().map(|feeder| state(feeder)))
    }
}

fn state<V: PartialEq + Send + Sync>(feeder: &Feeder<V>) -> WatchState {
    WatchState {
        watched: feeder.watched().clone(),
        last_event: feeder.last_event(),
        problem: feeder.problem(),
    }
}
