//! `dependsOn`: what a WebService waits for, who waits for it, and cycles.
//!
//! A dependency counts while it is Ready=True, whatever its generation. Names that do not exist (yet) are indexed like any
//! other, so that the dependency's own event wakes those who wait for it: nobody polls.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::engine::{Change, ObjectKey, Store};
use crate::records::WebServiceRecord;

/// Whether the dependencies of a WebService let its child be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// All are Ready.
    Open,
    /// Some are not; each with why, in the order of the spec.
    Waiting(Vec<Waiting>),
    /// The WebService waits for itself: the names along the way, from its own back to its own.
    Cycle(Vec<String>),
}

/// A dependency that is not Ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: String,
    /// Whether there is a WebService of that name.
    pub exists: bool,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, exists } = self;
        write!(f, "{name} {}", if *exists { "is not Ready" } else { "does not exist" })
    }
}

/// Looks at the dependencies of `key`.
#[must_use]
pub fn gate(webservices: &Store<WebServiceRecord>, key: &ObjectKey, record: &WebServiceRecord) -> Gate {
    if record.dependencies().next().is_none() {
        return Gate::Open;
    }
    if let Some(cycle) = cycle_through(webservices, key) {
        return Gate::Cycle(cycle);
    }
    let unready = |name: &str| match webservices.get(&key.sibling(name)) {
        Some(dependency) if dependency.is_ready() => None,
        found => Some(Waiting { name: name.to_owned(), exists: found.is_some() }),
    };
    let waiting: Vec<_> = record.dependencies().filter_map(unready).collect();
    if waiting.is_empty() { Gate::Open } else { Gate::Waiting(waiting) }
}

/// The names along a way from `start` back to itself, by depth-first search. Every WebService is visited once at most.
fn cycle_through(webservices: &Store<WebServiceRecord>, start: &ObjectKey) -> Option<Vec<String>> {
    let mut visited = HashSet::new();
    // The way to where the search is, and of each step the dependencies that are still to be tried.
    let mut way = vec![(start.name().to_owned(), dependencies_of(webservices, start))];
    while let Some((_, untried)) = way.last_mut() {
        let Some(next) = untried.pop() else {
            way.pop();
            continue;
        };
        if next == start.name() {
            return Some(way.into_iter().map(|(name, _)| name).chain([next]).collect());
        }
        if visited.insert(next.clone()) {
            let further = dependencies_of(webservices, &start.sibling(&next));
            way.push((next, further));
        }
    }
    None
}

fn dependencies_of(webservices: &Store<WebServiceRecord>, key: &ObjectKey) -> Vec<String> {
    let record = webservices.get(key);
    record.iter().flat_map(|record| record.dependencies()).map(ToOwned::to_owned).collect()
}

/// Who depends on whom, the other way round.
#[derive(Debug, Default)]
pub struct Dependents {
    by_dependency: Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>>,
}

impl Dependents {
    /// Follows a change of `key`, and gives those who should look again because of it.
    pub fn follow(&self, key: &ObjectKey, change: &Change<WebServiceRecord>) -> Vec<ObjectKey> {
        let (old, new) = match change {
            Change::Added(new) => (None, Some(new)),
            Change::Updated { old, new } => (Some(old), Some(new)),
            Change::Deleted(old) => (Some(old), None),
        };
        let names = |record: Option<&std::sync::Arc<WebServiceRecord>>| -> BTreeSet<String> {
            record.iter().flat_map(|record| record.dependencies()).map(ToOwned::to_owned).collect()
        };
        let (before, after) = (names(old), names(new));
        let mut index = self.by_dependency.lock().unwrap_or_else(PoisonError::into_inner);
        for name in before.difference(&after) {
            let dependency = key.sibling(name);
            if let Some(dependents) = index.get_mut(&dependency) {
                dependents.remove(key);
                if dependents.is_empty() {
                    index.remove(&dependency);
                }
            }
        }
        for name in after.difference(&before) {
            index.entry(key.sibling(name)).or_default().insert(key.clone());
        }
        // A reason that changes may close or open a cycle further up.
        let matters = before != after
            || match (old, new) {
                (Some(old), Some(new)) => {
                    (old.is_ready(), old.ready_reason()) != (new.is_ready(), new.ready_reason())
                }
                _ => true,
            };
        if matters { index.get(key).into_iter().flatten().cloned().collect() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::scene::{checkout, dependents, key, ready, webservice};

    fn waiting(name: &str, on: &str) -> serde_json::Value {
        let mut waiting = webservice(name);
        waiting["spec"]["dependsOn"] = json!([{"name": on}]);
        waiting
    }

    #[test]
    fn a_name_that_does_not_exist_yet_wakes_its_dependents_when_it_does() {
        let caches = checkout().beside(waiting("search", "billing")).caches();
        let index = dependents(&caches);
        let billing = caches.webservices.get(&key("checkout")).unwrap().value;
        assert_eq!(index.follow(&key("billing"), &Change::Added(billing)), [key("search")]);
    }

    #[test]
    fn a_change_that_leaves_ready_as_it_was_wakes_nobody() {
        let caches = checkout().beside(waiting("search", "checkout")).caches();
        let index = dependents(&caches);
        let same = caches.webservices.get(&key("checkout")).unwrap().value;
        let change = Change::Updated { old: Arc::clone(&same), new: same };
        assert_eq!(index.follow(&key("checkout"), &change), []);
    }

    #[test]
    fn turning_ready_wakes_the_dependents() {
        let caches = checkout().beside(waiting("search", "checkout")).caches();
        let index = dependents(&caches);
        let old = caches.webservices.get(&key("checkout")).unwrap().value;
        let scene = checkout().owner(|owner| *owner = ready(owner.take(), "True", "Reconciled"));
        let new = scene.caches().webservices.get(&key("checkout")).unwrap().value;
        assert_eq!(index.follow(&key("checkout"), &Change::Updated { old, new }), [key("search")]);
    }

    #[test]
    fn a_dependency_that_is_no_longer_named_wakes_nobody() {
        let caches = checkout().beside(waiting("search", "checkout")).caches();
        let index = dependents(&caches);
        let old = caches.webservices.get(&key("search")).unwrap().value;
        let new = caches.webservices.get(&key("checkout")).unwrap().value;
        index.follow(&key("search"), &Change::Updated { old, new: Arc::clone(&new) });
        assert_eq!(index.follow(&key("checkout"), &Change::Deleted(new)), []);
    }

    #[test]
    fn a_long_chain_is_searched_once() {
        let mut scene = checkout().owner(|owner| owner["spec"]["dependsOn"] = json!([{"name": "s0"}]));
        for i in 0..1000 {
            scene = scene.beside(waiting(&format!("s{i}"), &format!("s{}", i + 1)));
        }
        assert!(matches!(scene.observation().gate, Gate::Waiting(_)));
        let closed = scene.beside(waiting("s1000", "checkout"));
        assert!(matches!(closed.observation().gate, Gate::Cycle(names) if names.len() == 1003));
    }
}
