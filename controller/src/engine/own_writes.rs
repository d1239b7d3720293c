//! The own-write guard: a key waits until its watch has passed what the key itself has written.
//!
//! A pass that reads a store which lags behind the key's own writes would decide on the past: create a child
//! twice, write a status back to what it was. So each write is noted here with the version that the server
//! answered, and the next pass asks [`OwnWrites::unsettled`] first. If something is still under way, the pass
//! gives the key back ([`Outcome::AwaitCache`](super::Outcome)), and the event that settles the last write
//! brings it to the queue again. Nothing sleeps.
//!
//! What settles a write is decided by versions (see [`store`](super::store)), so deletions and recreations
//! need no case of their own:
//!
//! - [`Written::Version`]: the watch has delivered this version or a later one, of this or of any other
//!   object. If the object was deleted or replaced since, those events have higher versions and settle the
//!   write too.
//! - [`Written::Gone`]: the store holds no object of this name, or one with a higher version, a successor.
//!   (The server's answer to a deletion carries no version to wait for.)
//! - A full list that began after the write contains it: its end settles all earlier writes.
//! - After [`EXPIRY`] the pass goes on in any case, and is counted. That is safe, for every write carries
//!   preconditions; the guard saves useless work, it does not make the work correct.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::store::{Cache, ObjectKey, WatchPosition};

/// The longest time that a write is waited for.
pub const EXPIRY: Duration = Duration::from_secs(10);

/// What the server answered to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The object now has this version: created, updated, or marked for deletion.
    Version(u64),
    /// The object, last known with this version, is gone.
    Gone(u64),
}

struct Guard {
    cache: Arc<dyn Cache>,
    object: ObjectKey,
    written: Written,
    position: WatchPosition,
    expires: Instant,
}

impl Guard {
    fn is_settled(&self) -> bool {
        match self.written {
            Written::Version(version) => self.cache.has_passed(&self.object, version, self.position),
            Written::Gone(version) => self.cache.has_left(&self.object, version),
        }
    }
}

struct State<K> {
    guards: HashMap<K, Vec<Guard>>,
    /// Keys whose pass was given back, by the objects that they wait for.
    waiting: HashMap<ObjectKey, HashSet<K>>,
}

/// See the [module](self). `K` is the key of a pass, which may have written several objects.
pub struct OwnWrites<K> {
    state: Mutex<State<K>>,
    expired: AtomicU64,
    wake: Box<dyn Fn(K) + Send + Sync>,
}

impl<K: Clone + Eq + Hash> OwnWrites<K> {
    /// `wake` is called with a key whose pass was given back, once all its writes are settled: add it to the
    /// queue.
    #[must_use]
    pub fn new(wake: impl Fn(K) + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::new(State { guards: HashMap::new(), waiting: HashMap::new() }),
            expired: AtomicU64::new(0),
            wake: Box::new(wake),
        }
    }

    /// Notes that the pass over `key` has written `object`, which `cache` watches. To be called when the
    /// answer is there.
    pub fn wrote(&self, key: &K, cache: Arc<dyn Cache>, object: ObjectKey, written: Written) {
        let position = cache.position(&object);
        let guard = Guard { cache, object, written, position, expires: Instant::now() + EXPIRY };
        // The event may have been faster than the answer.
        if !guard.is_settled() {
            self.lock().guards.entry(key.clone()).or_default().push(guard);
        }
    }

    /// `None` if the caches show all that `key` wrote: the pass may go on. Otherwise the key is woken when
    /// they do, and the time is the longest that it has to wait.
    #[must_use]
    pub fn unsettled(&self, key: &K) -> Option<Duration> {
        let now = Instant::now();
        let mut state = self.lock();
        state.settle(key, |guard| {
            let is_expired = guard.expires <= now;
            self.expired.fetch_add(is_expired.into(), Ordering::Relaxed);
            is_expired
        });
        let longest = state.guards.get(key)?.iter().map(|guard| guard.expires).max()?;
        state.wait(key);
        Some(longest - now)
    }

    /// A cache has processed an event of `object`; to be called by its feeder, after the store was updated.
    pub fn observed(&self, object: &ObjectKey) {
        let settled = self.lock().settle_waiting_for(object);
        settled.into_iter().for_each(&self.wake);
    }

    /// A cache has processed a full list; to be called by its feeder, after the store was updated.
    pub fn relisted(&self) {
        let mut state = self.lock();
        let objects: Vec<_> = state.waiting.keys().cloned().collect();
        let settled: Vec<_> = objects.iter().flat_map(|object| state.settle_waiting_for(object)).collect();
        drop(state);
        settled.into_iter().for_each(&self.wake);
    }

    /// Drops what is known about `key`, whose object is gone.
    pub fn forget(&self, key: &K) {
        self.lock().forget(key);
    }

    /// How many writes were never seen in time.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Drops the guards of `key` that are settled or given up.
    fn settle(&mut self, key: &K, give_up: impl Fn(&Guard) -> bool) {
        let Some(guards) = self.guards.get_mut(key) else {
            return;
        };
        let dropped: Vec<_> = guards.extract_if(.., |guard| guard.is_settled() || give_up(guard)).collect();
        if guards.is_empty() {
            self.guards.remove(key);
        }
        for guard in dropped {
            self.stop_waiting(key, &guard.object);
        }
    }

    fn wait(&mut self, key: &K) {
        for guard in self.guards.get(key).into_iter().flatten() {
            self.waiting.entry(guard.object.clone()).or_default().insert(key.clone());
        }
    }

    /// The keys that waited for `object` and now have nothing left to wait for.
    fn settle_waiting_for(&mut self, object: &ObjectKey) -> Vec<K> {
        let keys: Vec<K> = self.waiting.get(object).into_iter().flatten().cloned().collect();
        keys.into_iter()
            .filter(|key| {
                self.settle(key, |_| false);
                !self.guards.contains_key(key)
            })
            .collect()
    }

    fn forget(&mut self, key: &K) {
        for guard in self.guards.remove(key).unwrap_or_default() {
            self.stop_waiting(key, &guard.object);
        }
    }

    /// Objects of two kinds may have one name, and one object may be written twice: the key waits until the
    /// last is settled.
    fn stop_waiting(&mut self, key: &K, object: &ObjectKey) {
        if self.guards.get(key).into_iter().flatten().any(|guard| guard.object == *object) {
            return;
        }
        if let Some(keys) = self.waiting.get_mut(object) {
            keys.remove(key);
            if keys.is_empty() {
                self.waiting.remove(object);
            }
        }
    }
}

impl<K> fmt::Debug for OwnWrites<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnWrites").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
