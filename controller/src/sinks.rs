//! From events to keys: which WebServices look again when an object has changed.

use std::sync::{Arc, PoisonError, RwLock};

use webservice_api::WebServiceStatus;
use webservice_api::constants::owner_name;

use crate::dependencies::Dependents;
use crate::engine::feeder::ProblemKind;
use crate::engine::{Backoff, Change, ObjectKey, OwnWrites, Priority, Scope, Sink, Store, WorkQueue};
use crate::metrics::{ByKind, CONFIG_MAP, Metrics, WEB_SERVICE};
use crate::records::{ChildRecord, WebServiceRecord};

/// What the watches of both kinds tell.
pub struct Wake {
    /// Where keys go, while somebody takes them.
    pub queue: Arc<WorkQueue<ObjectKey>>,
    /// How long failing keys wait.
    pub backoff: Arc<Backoff<ObjectKey>>,
    /// Where own writes are recognised.
    pub own_writes: Arc<OwnWrites<ObjectKey>>,
    /// Who waits for whom.
    pub dependents: Dependents,
    /// Where failures are counted.
    pub metrics: Arc<Metrics>,
    /// Where keys are wanted. A standby follows the watches and queues nothing: what it has not seen being worked on would only
    /// pile up. And a scope of which the caches do not show all yet is not worked on.
    pub served: RwLock<Vec<Scope>>,
}

impl Wake {
    /// From now on keys of `scope` are wanted: those of all objects, and of whatever changes.
    pub fn serve(&self, scope: &Scope, webservices: &Store<WebServiceRecord>) {
        self.served.write().unwrap_or_else(PoisonError::into_inner).push(scope.clone());
        webservices.for_each(|key, _| {
            if scope.covers(key.namespace()) {
                self.queue.add(key.clone(), Priority::Initial);
            }
        });
    }

    fn add(&self, key: ObjectKey, priority: Priority) {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        if served.iter().any(|scope| scope.covers(key.namespace())) {
            self.queue.add(key, priority);
        }
    }

    /// Another object than the one that failed, or another wish of it, does not wait for its back-off.
    fn forget_failures(&self, key: &ObjectKey) {
        self.backoff.forget(key);
        self.queue.forget(key);
    }
}

/// What a change of a WebService asks for.
#[derive(Debug, PartialEq, Eq)]
enum Echo {
    /// It is another object, asks for something else, is being deleted, or is gone: what failed before is history.
    NewLife,
    /// Something that a person or a program may wait for.
    News,
    /// Nothing but the status: mostly our own report, which comes back.
    Report,
}

impl Echo {
    fn of(change: &Change<WebServiceRecord>) -> Self {
        match change {
            Change::Added(_) => Self::News,
            Change::Deleted(_) => Self::NewLife,
            // The generation counts the changes of the spec, and the beginning of the deletion.
            Change::Updated { old, new } if wish(old) != wish(new) => Self::NewLife,
            Change::Updated { old, new } => {
                let besides = |record: &WebServiceRecord| WebServiceRecord {
                    status: WebServiceStatus::default(),
                    ..record.clone()
                };
                if besides(old) == besides(new) { Self::Report } else { Self::News }
            }
        }
    }
}

/// Which WebService asks for what: the generation counts the changes of its spec.
fn wish(record: &WebServiceRecord) -> (&str, i64, bool) {
    (&record.uid, record.generation, record.is_deleting)
}

/// What is watched, by whom it wakes.
pub trait Waking: Sized {
    /// Its kind, where failures of its watch are counted.
    const KIND: ByKind;

    /// Queues those who should look again because of `change`.
    fn wake(queue: &Wake, key: &ObjectKey, priority: Priority, change: &Change<Self>);
}

/// A WebService wakes itself and those that depend on it.
impl Waking for WebServiceRecord {
    const KIND: ByKind = WEB_SERVICE;

    fn wake(queue: &Wake, key: &ObjectKey, priority: Priority, change: &Change<Self>) {
        match Echo::of(change) {
            Echo::NewLife => {
                queue.forget_failures(key);
                queue.add(key.clone(), priority);
            }
            Echo::News => queue.add(key.clone(), priority),
            // Not urgent, and no reason to try a failing key early.
            Echo::Report => queue.add(key.clone(), Priority::Initial),
        }
        for dependent in queue.dependents.follow(key, change) {
            queue.add(dependent, priority);
        }
    }
}

/// A child wakes the WebService that its name belongs to, whatever its owner references say.
impl Waking for ChildRecord {
    const KIND: ByKind = CONFIG_MAP;

    fn wake(queue: &Wake, key: &ObjectKey, priority: Priority, _change: &Change<Self>) {
        if let Some(owner) = owner_name(key.name()) {
            queue.add(key.sibling(owner), priority);
        }
    }
}

impl<V: Waking> Sink<V> for Wake {
    fn changed(&self, key: &ObjectKey, priority: Priority, change: &Change<V>) {
        V::wake(self, key, priority, change);
    }

    fn observed(&self, key: &ObjectKey) {
        self.own_writes.observed(key);
    }

    fn relisted(&self) {
        self.own_writes.relisted();
    }

    fn failed(&self, kind: ProblemKind) {
        self.metrics.watch_failed(V::KIND, kind);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scene::{Scene, checkout, key, ready};

    fn record(scene: &Scene) -> Arc<WebServiceRecord> {
        scene.caches().webservices.get(&key("checkout")).unwrap().value
    }

    fn echo(new: &Scene) -> Echo {
        Echo::of(&Change::Updated { old: record(&checkout()), new: record(new) })
    }

    #[test]
    fn a_status_that_comes_back_is_a_report() {
        let reported = checkout().owner(|owner| *owner = ready(owner.take(), "False", "Forbidden"));
        assert_eq!(echo(&reported), Echo::Report);
    }

    #[test]
    fn a_finalizer_of_others_that_goes_is_news() {
        let freed = checkout().owner(|owner| owner["metadata"]["finalizers"] = json!([]));
        assert_eq!(echo(&freed), Echo::News);
    }

    #[test]
    fn a_spec_that_changes_begins_a_new_life() {
        let edited = checkout().owner(|owner| {
            owner["spec"]["replicas"] = json!(5);
            owner["metadata"]["generation"] = json!(3);
        });
        assert_eq!(echo(&edited), Echo::NewLife);
    }

    #[test]
    fn a_deletion_and_another_object_of_the_name_begin_a_new_life() {
        assert_eq!(echo(&checkout().deleting()), Echo::NewLife);
        assert_eq!(
            echo(&checkout().owner(|owner| owner["metadata"]["uid"] = json!("another"))),
            Echo::NewLife
        );
        assert_eq!(Echo::of(&Change::Deleted(record(&checkout()))), Echo::NewLife);
    }
}
