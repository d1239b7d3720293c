//! How long a key that fails waits before it is tried again.
//!
//! Per key: the first wait is about 5 ms, each further one twice as long, up to 60 s; a success forgets it
//! all. Each wait is drawn from the upper half of its step, so that keys that failed together do not come
//! back together, and never exceeds the step.
//!
//! The schedule belongs to time, not to events: a failure that comes *before* the wait was over (the queue
//! allows an early try when something changed) moves nothing. The key goes on waiting for what was left.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The first step.
pub const FIRST: Duration = Duration::from_millis(5);
/// The longest step. Every failing key is tried about this often, so healing needs no restart.
pub const LONGEST: Duration = Duration::from_mins(1);
/// Never wait longer than this, whatever the server asks for.
pub const LONGEST_ASKED: Duration = Duration::from_mins(5);

/// What a failed pass asks of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Soon, then ever later: the cause is expected to pass.
    #[default]
    BackOff,
    /// Not before this time has passed, as the server said in `Retry-After` (at most [`LONGEST_ASKED`]
    /// counts).
    NotBefore(Duration),
    /// A rejection that only a person lifts: at the longest step at once.
    Slowly,
}

/// What is known about a key that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The time to wait from now on.
    pub delay: Duration,
    /// Failures in a row; an early try does not count.
    pub attempts: u32,
    /// When the first of them happened.
    pub since: Instant,
    /// The failed pass was an early try: `delay` is what was left of the wait.
    pub was_early: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    attempts: u32,
    since: Instant,
    due: Instant,
}

/// A source of numbers in `[0, 1)`.
pub type Jitter = Box<dyn FnMut() -> f64 + Send>;

/// See the [module](self). Holds an entry per failing key only.
pub struct Backoff<K> {
    inner: Mutex<Inner<K>>,
}

struct Inner<K> {
    entries: HashMap<K, Entry>,
    jitter: Jitter,
}

impl<K: Clone + Eq + Hash> Backoff<K> {
    /// With the process's own randomness.
    #[must_use]
    pub fn new() -> Self {
        Self::with_jitter(Box::new(fastrand::f64))
    }

    /// With a given source of randomness, for tests that repeat.
    #[must_use]
    pub fn with_jitter(jitter: Jitter) -> Self {
        Self { inner: Mutex::new(Inner { entries: HashMap::new(), jitter }) }
    }

    /// Notes that a pass over `key` failed, and says how long to wait.
    pub fn failed(&self, key: &K, retry: Retry) -> Failure {
        let now = Instant::now();
        let mut inner = self.lock();
        let previous = inner.entries.get(key).copied();
        let jitter = (inner.jitter)();
        let (entry, was_early) = next(previous, retry, now, jitter);
        inner.entries.insert(key.clone(), entry);
        Failure { delay: entry.due - now, attempts: entry.attempts, since: entry.since, was_early }
    }

    /// Notes that a pass over `key` succeeded: its next failure is a first one.
    pub fn succeeded(&self, key: &K) {
        self.forget(key);
    }

    /// Drops what is known about `key`, whose object is gone.
    pub fn forget(&self, key: &K) {
        self.lock().entries.remove(key);
    }

    /// What is known about `key`, if its last pass failed; `delay` is what is left of its wait.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<Failure> {
        let Entry { attempts, since, due } = *self.lock().entries.get(key)?;
        let delay = due.saturating_duration_since(Instant::now());
        Some(Failure { delay, attempts, since, was_early: !delay.is_zero() })
    }

    /// At most `most` of the failing keys, with what is known about them.
    #[must_use]
    pub fn failing(&self, most: usize) -> Vec<(K, Failure)> {
        let keys: Vec<_> = self.lock().entries.keys().take(most).cloned().collect();
        keys.into_iter().filter_map(|key| self.get(&key).map(|failure| (key, failure))).collect()
    }

    /// The number of failing keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether no key is failing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Default for Backoff<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Backoff<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff").field("failing", &self.len()).finish_non_exhaustive()
    }
}

/// The state after a failure at `now`, and whether that failure was an early try.
fn next(previous: Option<Entry>, retry: Retry, now: Instant, jitter: f64) -> (Entry, bool) {
    let wait = |attempts| match retry {
        Retry::BackOff => from_upper_half(step(attempts), jitter),
        Retry::NotBefore(asked) => {
            from_upper_half(step(attempts), jitter).max(stretched(asked.min(LONGEST_ASKED), jitter))
        }
        Retry::Slowly => stretched(LONGEST, jitter),
    };
    match previous {
        Some(entry) if now < entry.due => {
            let due = match retry {
                Retry::NotBefore(_) => entry.due.max(now + wait(entry.attempts)),
                Retry::BackOff | Retry::Slowly => entry.due,
            };
            (Entry { due, ..entry }, true)
        }
        _ => {
            let attempts = previous.map_or(0, |entry| entry.attempts).saturating_add(1);
            let since = previous.map_or(now, |entry| entry.since);
            (Entry { attempts, since, due: now + wait(attempts) }, false)
        }
    }
}

/// The step after so many failures in a row, the first being 1.
fn step(attempts: u32) -> Duration {
    let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
    FIRST.saturating_mul(factor).min(LONGEST)
}

fn from_upper_half(step: Duration, jitter: f64) -> Duration {
    step.mul_f64(0.5 + 0.5 * jitter)
}

/// Up to a quarter more: what must not come sooner is spread to the other side.
fn stretched(wait: Duration, jitter: f64) -> Duration {
    wait.mul_f64(1.0 + 0.25 * jitter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::{advance, sleep};

    use super::*;

    fn backoff(jitter: f64) -> Backoff<&'static str> {
        Backoff::with_jitter(Box::new(move || jitter))
    }

    /// Fails so many times, each time when the wait is over, and gives the waits.
    async fn waits(backoff: &Backoff<&'static str>, failures: usize) -> Vec<Duration> {
        let mut waits = Vec::new();
        for _ in 0..failures {
            let failure = backoff.failed(&"a", Retry::BackOff);
            assert!(!failure.was_early);
            waits.push(failure.delay);
            sleep(failure.delay).await;
        }
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_from_five_milliseconds_to_a_minute() {
        let waits = waits(&backoff(1.0), 17).await;
        let expected =
            (0..17).map(|n| Duration::from_millis(5 * 2_u64.pow(n)).min(LONGEST)).collect::<Vec<_>>();
        assert_eq!(waits, expected);
        assert_eq!(waits.last(), Some(&LONGEST));
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_resets_the_schedule() {
        let backoff = backoff(1.0);
        waits(&backoff, 8).await;
        backoff.succeeded(&"a");
        assert!(backoff.is_empty());
        let failure = backoff.failed(&"a", Retry::BackOff);
        assert_eq!((failure.delay, failure.attempts), (FIRST, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_do_not_share_a_schedule() {
        let backoff = backoff(1.0);
        waits(&backoff, 8).await;
        assert_eq!(backoff.failed(&"b", Retry::BackOff).delay, FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_early_try_leaves_the_schedule_alone() {
        let backoff = backoff(1.0);
        waits(&backoff, 12).await;
        let before = backoff.failed(&"a", Retry::BackOff);
        advance(Duration::from_secs(1)).await;
        let early = backoff.failed(&"a", Retry::BackOff);
        assert!(early.was_early);
        assert_eq!(early.delay + Duration::from_secs(1), before.delay);
        assert_eq!(early.attempts, before.attempts);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_remembers_when_the_first_one_happened() {
        let backoff = backoff(1.0);
        let began = Instant::now();
        waits(&backoff, 5).await;
        let known = backoff.get(&"a").unwrap();
        assert_eq!((known.since, known.attempts), (began, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_the_server_named_is_waited_for() {
        let backoff = backoff(0.0);
        let asked = Duration::from_secs(7);
        assert_eq!(backoff.failed(&"a", Retry::NotBefore(asked)).delay, asked);
        let early = backoff.failed(&"a", Retry::NotBefore(Duration::from_secs(9)));
        assert_eq!(early.delay, Duration::from_secs(9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_beyond_reason_is_cut() {
        let delay = backoff(0.0).failed(&"a", Retry::NotBefore(Duration::MAX)).delay;
        assert_eq!(delay, LONGEST_ASKED);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejection_is_retried_at_the_longest_step_at_once() {
        assert_eq!(backoff(0.0).failed(&"a", Retry::Slowly).delay, LONGEST);
    }

    proptest! {
        #[test]
        fn a_wait_is_in_the_upper_half_of_its_step(failures in 0..100_u32, jitter in 0.0..1.0_f64) {
            let now = Instant::now();
            let previous = Entry { attempts: failures, since: now, due: now };
            let (entry, was_early) = next(Some(previous), Retry::BackOff, now, jitter);
            let step = FIRST.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST);
            prop_assert!(!was_early);
            prop_assert!(entry.due - now <= step);
            prop_assert!(entry.due - now >= step / 2);
        }
    }
}
