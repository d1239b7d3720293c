//! From events to keys: which WebServices look again when an object has changed.

use std::sync::Arc;

use webservice_api::constants::owner_name;

use crate::dependencies::Dependents;
use crate::engine::feeder::ProblemKind;
use crate::engine::{Change, ObjectKey, OwnWrites, Priority, Sink, WorkQueue};
use crate::metrics::Metrics;
use crate::records::{ChildRecord, WebServiceRecord};

/// What the watches of both kinds tell.
pub struct Wake {
    /// Where keys go.
    pub queue: Arc<WorkQueue<ObjectKey>>,
    /// Where own writes are recognised.
    pub own_writes: Arc<OwnWrites<ObjectKey>>,
    /// Who waits for whom.
    pub dependents: Dependents,
    /// Where failures are counted.
    pub metrics: Arc<Metrics>,
}

/// A WebService wakes itself and those that depend on it.
impl Sink<WebServiceRecord> for Wake {
    fn changed(&self, key: &ObjectKey, priority: Priority, change: &Change<WebServiceRecord>) {
        self.queue.add(key.clone(), priority);
        for dependent in self.dependents.follow(key, change) {
            self.queue.add(dependent, priority);
        }
    }

    fn observed(&self, key: &ObjectKey) {
        self.own_writes.observed(key);
    }

    fn relisted(&self) {
        self.own_writes.relisted();
    }

    fn failed(&self, kind: ProblemKind) {
        self.metrics.watch_failed(kind);
    }
}

/// A child wakes the WebService that its name belongs to, whatever its owner references say.
impl Sink<ChildRecord> for Wake {
    fn changed(&self, key: &ObjectKey, priority: Priority, _change: &Change<ChildRecord>) {
        if let Some(owner) = owner_name(key.name()) {
            self.queue.add(key.sibling(owner), priority);
        }
    }

    fn observed(&self, key: &ObjectKey) {
        self.own_writes.observed(key);
    }

    fn relisted(&self) {
        self.own_writes.relisted();
    }

    fn failed(&self, kind: ProblemKind) {
        self.metrics.watch_failed(kind);
    }
}
