//! Calls that go on in the background, counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Failures that are kept in words; more are only counted.
const EXAMPLES: usize = 5;
/// What the last calls may take when a load is to end.
const PATIENCE: Duration = Duration::from_mins(3);

/// How many calls were made, and how many failed.
#[derive(Debug, Default)]
pub struct Tally {
    calls: AtomicU64,
    failures: AtomicU64,
    examples: Mutex<Vec<String>>,
}

impl Tally {
    /// Counts a call, and gives what came of it where it did not fail.
    pub fn count<T>(&self, result: Result<T>) -> Option<T> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        result.inspect_err(|error| self.failed(&format!("{error:#}"))).ok()
    }

    fn failed(&self, what: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
        if examples.len() < EXAMPLES {
            examples.push(what.to_owned());
        }
    }

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Those that failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Calls that did not fail, per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "nothing is counted up to 2^52")]
    pub fn goodput(&self, elapsed: Duration) -> f64 {
        (self.calls() - self.failures()) as f64 / elapsed.as_secs_f64()
    }

    pub(super) fn examples(&self) -> Vec<String> {
        self.examples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Callers that call until they are told to stop. They end with the value.
#[derive(Default)]
pub struct Load {
    callers: JoinSet<()>,
    stop: CancellationToken,
}

impl Load {
    /// Nobody yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more caller: `call` again and again, with a pause of at most `pause` in between.
    pub fn add<F>(&mut self, pause: Duration, mut call: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let stop = self.stop.clone();
        self.callers.spawn(async move {
            while !stop.is_cancelled() {
                call().await;
                tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
            }
        });
    }

    /// Calls at a steady rate, whether or not earlier ones have ended.
    pub fn at_rate<F>(&mut self, per_second: u32, mut call: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        let mut ticks = interval(Duration::from_secs(1) / per_second);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.callers.spawn(async move {
            let mut calls = JoinSet::new();
            while stop.run_until_cancelled(ticks.tick()).await.is_some() {
                calls.spawn(call());
                // Those that have ended go, one for one at least.
                while calls.try_join_next().is_some() {}
            }
            calls.join_all().await;
        });
    }

    /// Waits until every caller has made its last call.
    pub async fn finish(mut self) -> Result<()> {
        self.stop.cancel();
        let all = async {
            while let Some(caller) = self.callers.join_next().await {
                caller.context("failed to finish a caller")?;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, all).await.context("failed to finish the load in time")?
    }
}
