//! The last seen state of every watched object of one kind, as slim as the caller projects it.
//!
//! Versions are resourceVersions read as integers: Kubernetes orders those of one resource (guaranteed since
//! 1.35, true before). From that follow the rules:
//!
//! - An object never goes back in time: what is older than the stored state is ignored, even in a full list,
//!   which a lagging or restored server may give. (After an etcd restore without `--bump-revision`,
//!   Kubernetes asks for a restart of all components; so do we.)
//! - An object that was deleted and made again has a higher version than its predecessor. So versions alone
//!   tell them apart; but the projected value should hold the uid, or a recreation that was not watched looks
//!   unchanged.
//! - A watch that has *passed* a version has delivered everything up to it.
//!
//! A full list updates in place, and what it did not contain is dropped at its end: that finds missed
//! deletions without holding two copies.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, Deref};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::ResourceExt;
use tokio::sync::watch;

/// Namespace and name of an object: what queues, stores and logs know it by. Cheap to clone.
///
/// One allocation holds both, written `namespace/name`; the namespace is empty for what lives in none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// The key of `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The key of `object`.
    pub fn of(object: &impl ResourceExt) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// The namespace, empty for what lives in none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.parts().0
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// The key of another object in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self::new(self.namespace(), name)
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or(("", &self.0))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not of the form `namespace/name`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("failed to read {0:?} as namespace/name")]
pub struct NotAKey(String);

impl FromStr for ObjectKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        match text.split_once('/') {
            Some((_, name)) if !name.is_empty() && !name.contains('/') => Ok(Self(text.into())),
            _ => Err(NotAKey(text.to_owned())),
        }
    }
}

/// What one watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The whole cluster.
    Cluster,
    /// One namespace.
    Namespace(Box<str>),
}

impl Scope {
    /// Whether an object in `namespace` belongs to this scope.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(ours) => **ours == *namespace,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("all namespaces"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
        }
    }
}

/// A stored value and the version of the object that it was projected from.
#[derive(Debug)]
pub struct Cached<V> {
    /// The object's resourceVersion; its decimal text is what a precondition carries.
    pub version: u64,
    /// What the caller keeps of the object.
    pub value: Arc<V>,
}

impl<V> Clone for Cached<V> {
    fn clone(&self) -> Self {
        Self { version: self.version, value: Arc::clone(&self.value) }
    }
}

impl<V> Deref for Cached<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

/// How an event changed what is stored.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<V> {
    /// First seen.
    Added(Arc<V>),
    /// Seen with another value.
    Updated {
        /// The value before.
        old: Arc<V>,
        /// The value now.
        new: Arc<V>,
    },
    /// Gone; the last value seen.
    Deleted(Arc<V>),
}

/// How far the watch over an object is; compared with a later reading by [`Cache::has_passed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchPosition {
    lists_begun: u64,
}

/// What the own-write guard asks of a [`Store`], whatever it holds.
pub trait Cache: Send + Sync {
    /// How far the watch that covers `key` is now. To be read after a write was answered.
    fn position(&self, key: &ObjectKey) -> WatchPosition;

    /// Whether the store shows the write of `key` that gave it `version`, or something later. `position` was
    /// read after that write: a full list begun since then contains it.
    fn has_passed(&self, key: &ObjectKey, version: u64, position: WatchPosition) -> bool;

    /// Whether the store shows that the object that had `version` is gone or was changed since.
    fn has_left(&self, key: &ObjectKey, version: u64) -> bool;
}

struct Entry<V> {
    version: u64,
    /// The full list (numbered per watch) or the list before the event in which the object was last seen.
    seen_in: u64,
    value: Arc<V>,
}

struct WatchState {
    scope: Scope,
    /// Everything up to this version was delivered.
    passed: u64,
    lists_begun: u64,
    /// The number of the last list that came to its end.
    list_done: u64,
    highest_in_list: u64,
}

struct Inner<V> {
    objects: BTreeMap<ObjectKey, Entry<V>>,
    watches: Vec<WatchState>,
}

/// See the [module](self). Written by one [`Feeder`](super::Feeder) per scope, read by everybody.
pub struct Store<V> {
    inner: RwLock<Inner<V>>,
    is_synced: watch::Sender<bool>,
}

impl<V: PartialEq> Store<V> {
    /// An empty store fed by one watch per scope. Scopes must not overlap.
    #[must_use]
    pub fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        let watches = scopes.into_iter().map(WatchState::new).collect();
        Self {
            inner: RwLock::new(Inner { objects: BTreeMap::new(), watches }),
            is_synced: watch::Sender::new(false),
        }
    }

    /// A full list of `scope` begins.
    pub fn begin_list(&self, scope: &Scope) {
        if let Some(watch) = self.write().watches.iter_mut().find(|watch| watch.scope == *scope) {
            watch.lists_begun += 1;
            watch.highest_in_list = 0;
        }
    }

    /// The full list contains this object.
    pub fn listed(&self, key: ObjectKey, version: u64, value: V) -> Option<Change<V>> {
        let mut inner = self.write();
        let watch = inner.watch_mut(&key)?;
        watch.highest_in_list = watch.highest_in_list.max(version);
        let seen_in = watch.lists_begun;
        inner.put(key, Entry { version, seen_in, value: Arc::new(value) })
    }

    /// The full list of `scope` is complete: what it did not contain is gone. Gives what that was.
    pub fn end_list(&self, scope: &Scope) -> Vec<(ObjectKey, Change<V>)> {
        let mut inner = self.write();
        let Some(watch) = inner.watches.iter_mut().find(|watch| watch.scope == *scope) else {
            return Vec::new();
        };
        watch.list_done = watch.lists_begun;
        watch.passed = watch.passed.max(watch.highest_in_list);
        let list = watch.list_done;
        let gone = inner
            .objects
            .extract_if(.., |key, entry| scope.covers(key.namespace()) && entry.seen_in < list)
            .map(|(key, entry)| (key, Change::Deleted(entry.value)))
            .collect();
        self.is_synced.send_replace(inner.watches.iter().all(|watch| watch.list_done > 0));
        gone
    }

    /// The watch saw this object.
    pub fn applied(&self, key: ObjectKey, version: u64, value: V) -> Option<Change<V>> {
        let mut inner = self.write();
        let seen_in = inner.advance(&key, version)?;
        inner.put(key, Entry { version, seen_in, value: Arc::new(value) })
    }

    /// The watch saw this object go.
    pub fn deleted(&self, key: &ObjectKey, version: u64) -> Option<Change<V>> {
        let mut inner = self.write();
        inner.advance(key, version)?;
        if inner.objects.get(key)?.version > version {
            return None;
        }
        inner.objects.remove(key).map(|entry| Change::Deleted(entry.value))
    }

    /// What is stored for `key`.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Cached<V>> {
        self.read().objects.get(key).map(Entry::cached)
    }

    /// Calls `visit` for all objects in `namespace`, by name. It must not call back into the store.
    pub fn for_each_in(&self, namespace: &str, mut visit: impl FnMut(&ObjectKey, &V)) {
        let first = ObjectKey::new(namespace, "");
        let objects = self.read();
        let range = objects.objects.range((Bound::Included(first), Bound::Unbounded));
        for (key, entry) in range.take_while(|(key, _)| key.namespace() == namespace) {
            visit(key, &entry.value);
        }
    }

    /// Calls `visit` for all objects. It must not call back into the store.
    pub fn for_each(&self, mut visit: impl FnMut(&ObjectKey, &V)) {
        for (key, entry) in &self.read().objects {
            visit(key, &entry.value);
        }
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every watch has delivered a full list. Stays true from then on: a store that falls behind is
    /// old, not incomplete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.is_synced.borrow()
    }

    /// Waits until [`Self::is_synced`]; as long as it takes, so bound it where that matters.
    pub async fn wait_synced(&self) {
        // An error would mean that the sender is gone, and the sender is part of `self`.
        let _ = self.is_synced.subscribe().wait_for(|is_synced| *is_synced).await;
    }

    /// The scopes of which no full list was delivered yet.
    #[must_use]
    pub fn unsynced(&self) -> Vec<Scope> {
        let unsynced = |watch: &&WatchState| watch.list_done == 0;
        self.read().watches.iter().filter(unsynced).map(|watch| watch.scope.clone()).collect()
    }

    /// Waits until a full list of `scope` was delivered.
    pub async fn wait_synced_in(&self, scope: &Scope) {
        // Something is sent at the end of every list.
        let mut lists = self.is_synced.subscribe();
        while self.unsynced().contains(scope) && lists.changed().await.is_ok() {}
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<V>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<V>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: PartialEq + Send + Sync> Cache for Store<V> {
    fn position(&self, key: &ObjectKey) -> WatchPosition {
        let inner = self.read();
        WatchPosition { lists_begun: inner.watch(key).map_or(0, |watch| watch.lists_begun) }
    }

    fn has_passed(&self, key: &ObjectKey, version: u64, position: WatchPosition) -> bool {
        let inner = self.read();
        let is_stored = || inner.objects.get(key).is_some_and(|entry| entry.version >= version);
        // An object that no watch covers would never be seen to pass.
        inner.watch(key).is_none_or(|watch| watch.passed >= version || watch.list_done > position.lists_begun)
            || is_stored()
    }

    fn has_left(&self, key: &ObjectKey, version: u64) -> bool {
        self.read().objects.get(key).is_none_or(|entry| entry.version > version)
    }
}

impl<V> fmt::Debug for Store<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("is_synced", &*self.is_synced.borrow()).finish_non_exhaustive()
    }
}

impl<V: PartialEq> Inner<V> {
    fn watch(&self, key: &ObjectKey) -> Option<&WatchState> {
        self.watches.iter().find(|watch| watch.scope.covers(key.namespace()))
    }

    fn watch_mut(&mut self, key: &ObjectKey) -> Option<&mut WatchState> {
        self.watches.iter_mut().find(|watch| watch.scope.covers(key.namespace()))
    }

    /// Notes that the watch delivered `version`, and gives the number of the list that its event follows.
    fn advance(&mut self, key: &ObjectKey, version: u64) -> Option<u64> {
        let watch = self.watch_mut(key)?;
        watch.passed = watch.passed.max(version);
        Some(watch.lists_begun)
    }

    fn put(&mut self, key: ObjectKey, entry: Entry<V>) -> Option<Change<V>> {
        let Some(stored) = self.objects.get_mut(&key) else {
            let new = Arc::clone(&entry.value);
            self.objects.insert(key, entry);
            return Some(Change::Added(new));
        };
        stored.seen_in = entry.seen_in;
        if entry.version < stored.version {
            return None;
        }
        stored.version = entry.version;
        if *entry.value == *stored.value {
            return None;
        }
        let old = std::mem::replace(&mut stored.value, Arc::clone(&entry.value));
        Some(Change::Updated { old, new: entry.value })
    }
}

impl<V> Entry<V> {
    fn cached(&self) -> Cached<V> {
        Cached { version: self.version, value: Arc::clone(&self.value) }
    }
}

impl WatchState {
    fn new(scope: Scope) -> Self {
        Self { scope, passed: 0, lists_begun: 0, list_done: 0, highest_in_list: 0 }
    }
}

#[cfg(test)]
mod tests;
