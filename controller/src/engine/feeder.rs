//! Keeps one watch alive and feeds a [`Store`] from it.
//!
//! An event goes three ways: into the store; to the own-write guard, which it may settle
//! ([`Sink::observed`]); and, if the projected value changed, to whoever turns objects into keys
//! ([`Sink::changed`]). What an object's event leaves unchanged in the store wakes nobody.
//!
//! Whatever goes wrong is named, counted and tried again, ever more slowly but at least every 30 s: a missing
//! permission, a resource that does not exist yet, an expired version, a broken connection. A server that
//! asks for patience gets it, within the same 30 s; one that is back after an outage and has forgotten the
//! version is asked for a list at once. The log tells each new problem once and a lasting one every minute.
//!
//! Silence is bounded as well. [`watch_config`] asks the server to end each watch after 50 s; kube's watcher
//! gives up one that is 5 s overdue and resumes where it was, which costs one request a minute. A full list
//! that makes no progress for [`LIST_STALL`] is begun again.

mod problem;
#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::runtime::watcher::{self, Event};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::problem::{Complaints, Pause};
pub use self::problem::{Problem, ProblemKind, Watched};
use super::queue::Priority;
use super::store::{Change, ObjectKey, Store};

/// How long the server keeps a watch open.
pub const WATCH_SECONDS: u32 = 50;
/// How long a full list may go without progress.
pub const LIST_STALL: Duration = Duration::from_mins(1);
/// How long a problem counts as present after it was last seen: longer than the longest pause between two
/// attempts.
pub const PROBLEM_LASTS: Duration = Duration::from_mins(1);

/// The settings of a watch whose silence is noticed within 55 s: lists of the most recent state, in pages of
/// 500.
#[must_use]
pub fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// Receives what a [`Feeder`] sees. Called after the store was updated; must not block.
pub trait Sink<V>: Send + Sync {
    /// The stored value of `key` changed. Full lists are [`Priority::Initial`], single events
    /// [`Priority::Live`].
    fn changed(&self, key: &ObjectKey, priority: Priority, change: &Change<V>);
    /// There was an event of `key`, whether it changed the value or not.
    fn observed(&self, _key: &ObjectKey) {}
    /// A full list was completed.
    fn relisted(&self) {}
    /// The watch failed; it is tried again.
    fn failed(&self, _kind: ProblemKind) {}
}

/// A function is a sink that is told of changes only.
impl<V, F: Fn(&ObjectKey, Priority, &Change<V>) + Send + Sync> Sink<V> for F {
    fn changed(&self, key: &ObjectKey, priority: Priority, change: &Change<V>) {
        self(key, priority, change);
    }
}

/// See the [module](self).
pub struct Feeder<V> {
    watched: Watched,
    store: Arc<Store<V>>,
    sink: Arc<dyn Sink<V>>,
    health: Mutex<Health>,
}

#[derive(Default)]
struct Health {
    last_event: Option<Instant>,
    problem: Option<(Instant, Arc<Problem>)>,
}

impl<V: PartialEq + Send + Sync> Feeder<V> {
    /// Feeds `store`, which must have the scope of `watched` among its own, and tells `sink`.
    #[must_use]
    pub fn new(watched: Watched, store: Arc<Store<V>>, sink: Arc<dyn Sink<V>>) -> Self {
        Self { watched, store, sink, health: Mutex::default() }
    }

    /// Runs until `stop` is cancelled. `watch` begins a watch from a full list, such as
    /// `|| watcher(api.clone(), watch_config())`; it must list after it yielded [`Event::Init`], as kube's
    /// watcher does unless told to stream lists. `project` keeps of an object what the store shall hold.
    pub async fn run<K, S>(&self, watch: impl Fn() -> S, project: impl Fn(K) -> V, stop: &CancellationToken)
    where
        K: ResourceExt,
        S: Stream<Item = watcher::Result<Event<K>>>,
    {
        stop.run_until_cancelled(self.run_forever(watch, project)).await;
    }

    /// When the last event came; a quiet resource has none for long.
    #[must_use]
    pub fn last_event(&self) -> Option<Instant> {
        self.with_health(|health| health.last_event)
    }

    /// What keeps the watch from working now, if anything.
    #[must_use]
    pub fn problem(&self) -> Option<Arc<Problem>> {
        self.with_health(|health| {
            let (seen, problem) = health.problem.as_ref()?;
            (seen.elapsed() < PROBLEM_LASTS).then(|| Arc::clone(problem))
        })
    }

    /// What is watched.
    #[must_use]
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    async fn run_forever<K, S>(&self, watch: impl Fn() -> S, project: impl Fn(K) -> V)
    where
        K: ResourceExt,
        S: Stream<Item = watcher::Result<Event<K>>>,
    {
        let mut retries = Retries::new();
        loop {
            let problem = self.follow(watch(), &project, &mut retries).await;
            self.retry_later(problem, &mut retries).await;
        }
    }

    /// Processes events and survives errors, up to the problem that only a new full list solves.
    async fn follow<K: ResourceExt>(
        &self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
        project: impl Fn(K) -> V,
        retries: &mut Retries,
    ) -> Problem {
        let mut events = pin!(events);
        let mut is_listing = true;
        loop {
            let result = match next(&mut events, is_listing).await {
                Next::Event(event) => {
                    is_listing = is_listing_after(&event, is_listing);
                    self.note_event(&event, retries);
                    self.take(event, &project)
                }
                Next::Failed(error) => {
                    let problem = Problem::from_watcher(&self.watched, &error);
                    // kube's watcher lists again after an event that says so; after an answer it would ask for the
                    // same expired version for ever.
                    if let (watcher::Error::WatchStartFailed(_), ProblemKind::Expired) =
                        (&error, problem.kind)
                    {
                        return problem;
                    }
                    Err(problem)
                }
                Next::Stalled => return Problem::stalled(&self.watched),
            };
            if let Err(problem) = result {
                self.retry_later(problem, retries).await;
            }
        }
    }

    fn take<K: ResourceExt>(&self, event: Event<K>, project: impl Fn(K) -> V) -> Result<(), Problem> {
        match event {
            Event::Init => self.store.begin_list(&self.watched.scope),
            Event::InitApply(object) => {
                let (key, version) = self.identify(&object)?;
                let change = self.store.listed(key.clone(), version, project(object));
                self.tell(&key, Priority::Initial, change.as_ref());
            }
            Event::InitDone => {
                for (key, change) in self.store.end_list(&self.watched.scope) {
                    self.tell(&key, Priority::Initial, Some(&change));
                }
                self.sink.relisted();
            }
            Event::Apply(object) => {
                let (key, version) = self.identify(&object)?;
                let change = self.store.applied(key.clone(), version, project(object));
                self.tell(&key, Priority::Live, change.as_ref());
            }
            Event::Delete(object) => {
                let (key, version) = self.identify(&object)?;
                let change = self.store.deleted(&key, version);
                self.tell(&key, Priority::Live, change.as_ref());
            }
        }
        Ok(())
    }

    fn tell(&self, key: &ObjectKey, priority: Priority, change: Option<&Change<V>>) {
        self.sink.observed(key);
        if let Some(change) = change {
            self.sink.changed(key, priority, change);
        }
    }

    fn identify(&self, object: &impl ResourceExt) -> Result<(ObjectKey, u64), Problem> {
        let key = ObjectKey::of(object);
        let version = object.meta().resource_version.as_deref().unwrap_or_default();
        match version.parse() {
            Ok(version) => Ok((key, version)),
            Err(_) => Err(Problem::unordered(&self.watched, &key, version)),
        }
    }

    fn note_event<K>(&self, event: &Event<K>, retries: &mut Retries) {
        // Says that a list is about to be asked for, not that anything came.
        if matches!(event, Event::Init) {
            return;
        }
        self.with_health(|health| {
            health.last_event = Some(Instant::now());
            health.problem = None;
        });
        retries.complaints.end(&self.watched);
    }

    async fn retry_later(&self, problem: Problem, retries: &mut Retries) {
        let now = Instant::now();
        self.sink.failed(problem.kind);
        retries.complaints.tell(&problem, now);
        let pause = retries.pause_after(problem.kind, now, fastrand::f64());
        let pause = pause.max(problem.asked.min(Pause::LONGEST));
        self.with_health(|health| health.problem = Some((now, Arc::new(problem))));
        sleep(pause).await;
    }

    fn with_health<T>(&self, use_it: impl FnOnce(&mut Health) -> T) -> T {
        use_it(&mut self.health.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What outlives a single attempt.
struct Retries {
    complaints: Complaints,
    pause: Pause,
    last: Option<ProblemKind>,
}

impl Retries {
    fn new() -> Self {
        Self { complaints: Complaints::default(), pause: Pause::new(Instant::now()), last: None }
    }

    /// A server that says that it has forgotten the version has just come back, and nobody waits for its list as long as for the
    /// server. It counts like any other problem: if that goes on, or others follow, they have the pauses that they would have had.
    fn pause_after(&mut self, kind: ProblemKind, now: Instant, jitter: f64) -> Duration {
        self.pause = self.pause.next(now, jitter);
        let is_back = self.last.replace(kind) != Some(kind) && kind == ProblemKind::Expired;
        if is_back { Pause::new(now).next(now, jitter).length() } else { self.pause.length() }
    }
}

enum Next<K> {
    Event(Event<K>),
    Failed(watcher::Error),
    /// No progress, or the stream ended, which kube's does not: begin a new one.
    Stalled,
}

async fn next<K>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    is_listing: bool,
) -> Next<K> {
    // Between lists a quiet watch is nothing to worry about, and its end is kube's to notice.
    let item = if is_listing {
        timeout(LIST_STALL, events.next()).await.unwrap_or_default()
    } else {
        events.next().await
    };
    match item {
        Some(Ok(event)) => Next::Event(event),
        Some(Err(error)) => Next::Failed(error),
        None => Next::Stalled,
    }
}

fn is_listing_after<K>(event: &Event<K>, is_listing: bool) -> bool {
    match event {
        Event::Init => true,
        Event::InitDone => false,
        Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => is_listing,
    }
}

impl<V> fmt::Debug for Feeder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").field("watched", &self.watched).finish_non_exhaustive()
    }
}
