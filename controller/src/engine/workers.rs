//! The worker pool: a bounded number of passes at a time, each under a deadline.
//!
//! A pass that returns an error, panics or overruns its deadline has failed: its key backs off (see
//! [`backoff`](super::backoff)) and the worker goes on with the next one. When the pool is told to stop, it
//! takes no more keys; passes that run may finish until the drain time is over, then they are dropped at
//! their next `await`.

use std::any::Any;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, Failure, Retry};
use super::queue::{EarlyTry, WorkQueue};

/// Brings the world closer to what the object of a key asks for.
pub trait Reconciler: Send + Sync + 'static {
    /// What is worked on.
    type Key: Clone + Eq + Hash + Display + Send + Sync + 'static;
    /// Why a pass failed.
    type Error: RetryHint + Display + Send;

    /// One pass over `key`. It may be dropped at any `await`, at its deadline or at shutdown.
    fn reconcile(
        &self,
        key: &Self::Key,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;
}

/// What an error asks of the retry that follows it.
pub trait RetryHint {
    /// By default, the usual back-off.
    fn retry(&self) -> Retry {
        Retry::BackOff
    }
}

/// What a pass is told about the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When this pass is dropped.
    pub deadline: Instant,
    /// Failures in a row before this pass.
    pub failures: u32,
    /// When the first of them happened.
    pub failing_since: Option<Instant>,
}

/// What a pass that did not fail asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing, until something changes.
    Done,
    /// Another look after this time, whatever happens. Not a failure: it resets the back-off.
    RequeueAfter(Duration),
    /// The pass did nothing, as its cache lags behind its own writes. An event will bring the key back; if
    /// none does, this time will. Says nothing about success, so the back-off stays as it is.
    AwaitCache(Duration),
}

/// How a pass ended, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// [`Outcome::Done`].
    Done,
    /// [`Outcome::RequeueAfter`].
    Requeued,
    /// [`Outcome::AwaitCache`].
    AwaitingCache,
    /// An error was returned.
    Failed,
    /// The pass panicked.
    Panicked,
    /// The deadline came first.
    TimedOut,
}

/// Receives what happens in the pool; every method defaults to doing nothing. None may panic: it would take
/// its worker along.
pub trait PassObserver<K>: Send + Sync {
    /// A pass begins.
    fn started(&self, _key: &K) {}
    /// A pass ended.
    fn ended(&self, _key: &K, _end: End, _took: Duration) {}
}

/// For those who do not want to know.
impl<K> PassObserver<K> for () {}

/// The limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Passes at a time.
    pub concurrency: usize,
    /// The longest time for one pass.
    pub pass: Duration,
    /// The longest time for running passes to end once the pool stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrency: 10, pass: Duration::from_secs(30), drain: Duration::from_secs(10) }
    }
}

/// See the [module](self).
pub struct WorkerPool<R: Reconciler> {
    shared: Arc<Shared<R>>,
}

struct Shared<R: Reconciler> {
    reconciler: R,
    queue: Arc<WorkQueue<R::Key>>,
    backoff: Arc<Backoff<R::Key>>,
    observer: Arc<dyn PassObserver<R::Key>>,
    limits: Limits,
    running: AtomicUsize,
}

impl<R: Reconciler> WorkerPool<R> {
    /// A pool that works on `queue` once it [runs](Self::run).
    #[must_use]
    pub fn new(
        reconciler: R,
        queue: Arc<WorkQueue<R::Key>>,
        backoff: Arc<Backoff<R::Key>>,
        observer: Arc<dyn PassObserver<R::Key>>,
        limits: Limits,
    ) -> Self {
        let running = AtomicUsize::new(0);
        Self { shared: Arc::new(Shared { reconciler, queue, backoff, observer, limits, running }) }
    }

    /// Works until `stop` is cancelled or the queue shut down, then drains. Gives the number of passes that
    /// were dropped because they did not end in time.
    pub async fn run(&self, stop: &CancellationToken) -> usize {
        let mut workers = JoinSet::new();
        for _ in 0..self.shared.limits.concurrency.max(1) {
            let (shared, stop) = (Arc::clone(&self.shared), stop.clone());
            workers.spawn(async move { shared.work(&stop).await });
        }
        let mut ended = pin!(async { while workers.join_next().await.is_some() {} });
        tokio::select! {
            () = stop.cancelled() => {}
            () = &mut ended => return 0,
        }
        match timeout(self.shared.limits.drain, ended).await {
            Ok(()) => 0,
            // The workers that are left end with the set.
            Err(_) => self.running(),
        }
    }

    /// The number of passes that are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.running.load(Ordering::Relaxed)
    }
}

impl<R: Reconciler> Shared<R> {
    async fn work(&self, stop: &CancellationToken) {
        loop {
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                key = self.queue.get() => match key {
                    Some(key) => key,
                    None => return,
                },
            };
            let _running = Running::new(&self.running);
            self.observer.started(&key);
            let started = Instant::now();
            let end = self.pass(&key, started).await;
            self.observer.ended(&key, end, started.elapsed());
            self.queue.done(&key);
        }
    }

    /// One pass, and what follows from it for the key.
    async fn pass(&self, key: &R::Key, started: Instant) -> End {
        let deadline = started + self.limits.pass;
        let before = self.backoff.get(key);
        let attempt = Attempt {
            deadline,
            failures: before.map_or(0, |failure| failure.attempts),
            failing_since: before.map(|failure| failure.since),
        };
        // In a block of its own, so that a panic before the first `await` is caught too.
        let reconcile = async { self.reconciler.reconcile(key, &attempt).await };
        match timeout_at(deadline, AssertUnwindSafe(reconcile).catch_unwind()).await {
            Ok(Ok(Ok(outcome))) => self.succeeded(key, outcome),
            Ok(Ok(Err(error))) => self.failed(key, End::Failed, error.retry(), &error),
            Ok(Err(panic)) => self.failed(key, End::Panicked, Retry::BackOff, &panic_message(&*panic)),
            Err(_) => {
                let message = format_args!("no result within {:?}", self.limits.pass);
                self.failed(key, End::TimedOut, Retry::BackOff, &message)
            }
        }
    }

    fn succeeded(&self, key: &R::Key, outcome: Outcome) -> End {
        match outcome {
            Outcome::Done => {
                self.backoff.succeeded(key);
                End::Done
            }
            Outcome::RequeueAfter(delay) => {
                self.backoff.succeeded(key);
                self.queue.add_after(key.clone(), delay);
                End::Requeued
            }
            Outcome::AwaitCache(longest) => {
                self.queue.add_after(key.clone(), longest);
                End::AwaitingCache
            }
        }
    }

    fn failed(&self, key: &R::Key, end: End, retry: Retry, reason: &dyn Display) -> End {
        let failure = self.backoff.failed(key, retry);
        let early_try = early_try_after(failure, retry);
        self.queue.back_off(key.clone(), failure.delay, early_try);
        log(key, end, &failure, reason);
        end
    }
}

/// One early try per step, and none before a time that the server named.
fn early_try_after(failure: Failure, retry: Retry) -> EarlyTry {
    match retry {
        Retry::BackOff | Retry::Slowly if !failure.was_early => EarlyTry::Allowed,
        _ => EarlyTry::Denied,
    }
}

/// A key that goes on failing is logged less and less often by itself, as its waits grow.
fn log(key: &dyn Display, end: End, failure: &Failure, reason: &dyn Display) {
    let Failure { attempts, delay, .. } = failure;
    if end == End::Panicked {
        tracing::error!(%key, attempts, retry_in = ?delay, "a pass panicked: {reason}");
    } else {
        tracing::warn!(%key, attempts, retry_in = ?delay, "a pass failed: {reason}");
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}

/// Counts a running pass, also when its worker is dropped.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn new(running: &'a AtomicUsize) -> Self {
        running.fetch_add(1, Ordering::Relaxed);
        Self(running)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<R: Reconciler> Debug for WorkerPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("running", &self.running()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
