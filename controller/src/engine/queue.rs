//! A work queue of keys: one worker per key, one more pass for what happens meanwhile, urgent keys first.
//!
//! The semantics are those of client-go's `workqueue`, with two lanes and with back-off inside:
//!
//! - A key is in the queue at most once, so the queue is bounded by the number of objects.
//! - A key that is taken is *processing* until [`WorkQueue::done`]. Nobody else gets it meanwhile; adding it
//!   causes exactly one more pass, however often it was added.
//! - Within a lane keys leave in the order in which they came. [`Priority::Live`] leaves before
//!   [`Priority::Initial`], and a queued initial key that sees a live event moves to the live lane. After
//!   [`LIVE_RUN`] live keys in a row one initial key has its turn: a stream of events delays what waits behind
//!   it, and never stops it.
//! - A pass supersedes whatever requeue was pending for its key: it saw newer state and decides again.
//! - A key in back-off stays there. A live event buys it one early try per back-off step, after
//!   [`EARLY_TRY`]; further events, and initial ones, change nothing. So a person who repairs the cause
//!   during a long back-off is served soon, and an event that each failure causes by itself makes no hot
//!   loop.

#[cfg(test)]
mod properties;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::state::State;

/// How long a live event lets a key in back-off wait at most, once per back-off step.
pub const EARLY_TRY: Duration = Duration::from_secs(1);

/// How many live keys leave in a row while initial ones wait.
pub const LIVE_RUN: u32 = 9;

/// The lane of a key. The lesser one is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Something changed while we were watching: a person may be waiting.
    Live,
    /// Part of a full list or of a periodic check: nothing is known to have changed.
    Initial,
}

/// What may end the wait of a key in back-off early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyTry {
    /// The next live event, after [`EARLY_TRY`].
    Allowed,
    /// Nothing: this step had its early try, or the server named the time.
    Denied,
}

/// Receives what happens in a queue; every method defaults to doing nothing.
///
/// The names follow client-go's `workqueue_*` metrics. What grows with time (`unfinished_work_seconds`,
/// `longest_running_processor_seconds`) is read from [`WorkQueue::stats`] at scrape time instead.
/// Methods are called while the queue is locked and must not call back into it.
pub trait QueueMetrics: Send + Sync {
    /// The number of keys that are ready for a worker changed.
    fn depth(&self, _ready: usize) {}
    /// A key was added that was neither ready nor marked for one more pass.
    fn added(&self) {}
    /// A key left the queue after having been ready for so long.
    fn waited(&self, _ready_for: Duration) {}
    /// A pass over a key ended.
    fn worked(&self, _took: Duration) {}
    /// A key was added with a delay: a requeue or a back-off.
    fn retried(&self) {}
}

/// Metrics for those who want none.
impl QueueMetrics for () {}

/// A snapshot of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Ready keys in the live lane.
    pub live: usize,
    /// Ready keys in the initial lane.
    pub initial: usize,
    /// Keys that wait for a requeue or in back-off.
    pub delayed: usize,
    /// Keys in the hands of a worker.
    pub processing: usize,
    /// The time that all running passes took so far, added up.
    pub unfinished_work: Duration,
    /// The time that the longest running pass took so far.
    pub longest_running: Duration,
}

/// See the [module](self). Shared by reference or in an [`Arc`]; every method takes `&self`.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    /// Woken whenever a waiting worker's view of the queue became outdated.
    changed: Notify,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue that reports to `metrics`; pass `Arc::new(())` for none.
    #[must_use]
    pub fn new(metrics: Arc<dyn QueueMetrics>) -> Self {
        Self { state: Mutex::new(State::new(metrics)), changed: Notify::new() }
    }

    /// Asks for a pass over `key` as soon as a worker is free (see the module for keys in back-off).
    pub fn add(&self, key: K, priority: Priority) {
        self.change(|state, now| state.add(key, priority, now));
    }

    /// Asks for a pass over `key` after `delay`, in the initial lane. Of several such wishes the earliest
    /// wins; a pass that begins before clears them all; a key in back-off stays in back-off.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.change(|state, now| state.requeue(key, now + delay, now));
    }

    /// Asks for a pass over `key` after `delay` and keeps events from causing an earlier one, but for what
    /// `early_try` allows. The key keeps the lane of the pass that is running.
    pub fn back_off(&self, key: K, delay: Duration, early_try: EarlyTry) {
        self.change(|state, now| state.back_off(key, now + delay, early_try, now));
    }

    /// The next key, as soon as there is one; `None` once the queue was shut down. Call [`Self::done`] with
    /// it afterwards. Cancel safe: a key is taken only when this future completes.
    pub async fn get(&self) -> Option<K> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, or a key added in between would wake nobody.
            changed.as_mut().enable();
            let next_due = match self.lock().take(Instant::now()) {
                state::Taken::Key(key) => return Some(key),
                state::Taken::Nothing { next_due } => next_due,
                state::Taken::ShutDown => return None,
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until_or_forever(next_due) => {}
            }
        }
    }

    /// Ends the pass over `key`: if it was added meanwhile, it becomes ready again.
    pub fn done(&self, key: &K) {
        self.change(|state, now| state.done(key, now));
    }

    /// Drops the requeue or back-off that is pending for `key`, whose object is gone. A key that is ready or
    /// processing stays so.
    pub fn forget(&self, key: &K) {
        self.lock().forget(key);
    }

    /// Hands out no more keys and ends every [`Self::get`]. What is queued is dropped: keys are found again
    /// by the next full list.
    pub fn shut_down(&self) {
        self.lock().shut_down();
        self.changed.notify_waiters();
    }

    /// The number of keys that are ready for a worker.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().ready()
    }

    /// Whether no key is ready for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is in the queue, for metrics and for people.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.lock().stats(Instant::now())
    }

    /// The keys in the hands of workers, and for how long.
    #[must_use]
    pub fn in_work(&self) -> Vec<(K, Duration)> {
        self.lock().in_work(Instant::now())
    }

    /// Each change wakes the worker that has waited longest: either there is something for it, or it goes
    /// back to the end of the line with the new time at which the next key is due. So whoever is idle knows
    /// of all that changed since.
    fn change(&self, change: impl FnOnce(&mut State<K>, Instant)) {
        change(&mut self.lock(), Instant::now());
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.stats()).finish()
    }
}

async fn sleep_until_or_forever(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
