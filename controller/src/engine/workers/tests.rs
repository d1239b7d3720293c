use std::sync::Mutex;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::engine::queue::Priority::Live;

type Key = &'static str;

#[derive(Debug)]
struct Failure(Retry);

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("as the test asked")
    }
}

impl RetryHint for Failure {
    fn retry(&self) -> Retry {
        self.0
    }
}

/// What a pass does when it is given a key.
type Script = Box<dyn Fn(Key, &Attempt) -> Step + Send + Sync>;

enum Step {
    Return(Result<Outcome, Failure>),
    Panic,
    Hang,
    /// Waits for a permit of the bed, then is done.
    Wait,
}

const DONE: Step = Step::Return(Ok(Outcome::Done));
const FAIL: Step = Step::Return(Err(Failure(Retry::BackOff)));

struct Scripted {
    script: Script,
    permits: Arc<Semaphore>,
}

impl Reconciler for Scripted {
    type Key = Key;
    type Error = Failure;

    async fn reconcile(&self, key: &Key, attempt: &Attempt) -> Result<Outcome, Failure> {
        match (self.script)(key, attempt) {
            Step::Return(result) => result,
            Step::Panic => panic!("as the test asked"),
            Step::Hang => std::future::pending().await,
            Step::Wait => {
                self.permits.acquire().await.unwrap().forget();
                Ok(Outcome::Done)
            }
        }
    }
}

#[derive(Default)]
struct Recorder {
    ends: Mutex<Vec<(Key, End)>>,
    running: Mutex<Vec<Key>>,
    most_at_once: AtomicUsize,
}

impl PassObserver<Key> for Recorder {
    fn started(&self, key: &Key) {
        let mut running = self.running.lock().unwrap();
        assert!(!running.contains(key), "{key} is in two hands");
        running.push(key);
        self.most_at_once.fetch_max(running.len(), Ordering::Relaxed);
    }

    fn ended(&self, key: &Key, end: End, _took: Duration) {
        self.running.lock().unwrap().retain(|running| running != key);
        self.ends.lock().unwrap().push((key, end));
    }
}

/// A running pool and everything around it.
struct Bed {
    queue: Arc<WorkQueue<Key>>,
    backoff: Arc<Backoff<Key>>,
    permits: Arc<Semaphore>,
    seen: Arc<Recorder>,
    stop: CancellationToken,
    pool: JoinHandle<usize>,
}

const LIMITS: Limits =
    Limits { concurrency: 3, pass: Duration::from_secs(30), drain: Duration::from_secs(10) };

fn run(script: impl Fn(Key, &Attempt) -> Step + Send + Sync + 'static) -> Bed {
    let queue = Arc::new(WorkQueue::new(Arc::new(())));
    let backoff = Arc::new(Backoff::new());
    let permits = Arc::new(Semaphore::new(0));
    let seen = Arc::new(Recorder::default());
    let stop = CancellationToken::new();
    let reconciler = Scripted { script: Box::new(script), permits: Arc::clone(&permits) };
    let observer = Arc::clone(&seen) as Arc<dyn PassObserver<Key>>;
    let pool = WorkerPool::new(reconciler, Arc::clone(&queue), Arc::clone(&backoff), observer, LIMITS);
    let pool = tokio::spawn({
        let stop = stop.clone();
        async move { pool.run(&stop).await }
    });
    Bed { queue, backoff, permits, seen, stop, pool }
}

impl Bed {
    /// Waits, for at most an hour of the paused clock, until `condition` holds.
    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_hours(1), wait).await.expect("the condition never held");
    }

    async fn ends(&self, count: usize) -> Vec<(Key, End)> {
        self.until(|bed| bed.seen.ends.lock().unwrap().len() >= count).await;
        self.seen.ends.lock().unwrap().clone()
    }

    async fn stop(self) -> usize {
        self.stop.cancel();
        timeout(Duration::from_mins(1), self.pool).await.unwrap().unwrap()
    }
}

/// Does `first` in the first pass and is done in all others.
fn first(first: impl Fn() -> Step + Send + Sync) -> impl Fn(Key, &Attempt) -> Step + Send + Sync {
    let passes = AtomicUsize::new(0);
    move |_, _| if passes.fetch_add(1, Ordering::Relaxed) == 0 { first() } else { DONE }
}

#[tokio::test(start_paused = true)]
async fn a_failed_pass_is_retried_until_it_succeeds() {
    let bed = run(|_, attempt| if attempt.failures < 3 { FAIL } else { DONE });
    bed.queue.add("a", Live);
    let ends = bed.ends(4).await;
    assert_eq!(ends, [("a", End::Failed), ("a", End::Failed), ("a", End::Failed), ("a", End::Done)]);
    assert!(bed.backoff.is_empty());
    assert_eq!(bed.stop().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_and_retried_like_an_error() {
    let bed = run(first(|| Step::Panic));
    bed.queue.add("a", Live);
    assert_eq!(bed.ends(2).await, [("a", End::Panicked), ("a", End::Done)]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_hangs_is_dropped_at_its_deadline_and_retried() {
    let bed = run(first(|| Step::Hang));
    let began = Instant::now();
    bed.queue.add("a", Live);
    assert_eq!(bed.ends(2).await, [("a", End::TimedOut), ("a", End::Done)]);
    assert!(began.elapsed() >= LIMITS.pass);
}

#[tokio::test(start_paused = true)]
async fn keys_that_always_fail_do_not_keep_others_from_being_processed() {
    let bed = run(|key, _| match key {
        "panics" => Step::Panic,
        "fails" => FAIL,
        _ => DONE,
    });
    for key in ["panics", "fails", "good"] {
        bed.queue.add(key, Live);
    }
    let began = Instant::now();
    bed.until(|bed| bed.seen.ends.lock().unwrap().contains(&("good", End::Done))).await;
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_is_tried_ever_more_rarely() {
    let bed = run(|_, _| FAIL);
    bed.queue.add("a", Live);
    sleep(Duration::from_mins(10)).await;
    let tries = bed.seen.ends.lock().unwrap().len();
    assert!((20..=40).contains(&tries), "{tries} tries in 10 minutes");
}

#[tokio::test(start_paused = true)]
async fn events_do_not_make_a_failing_key_hot() {
    let bed = run(|_, _| FAIL);
    for _ in 0..6_000 {
        bed.queue.add("a", Live);
        sleep(Duration::from_millis(100)).await;
    }
    let tries = bed.seen.ends.lock().unwrap().len();
    assert!(tries <= 80, "{tries} tries in 10 minutes");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_retried_after_a_minute() {
    let bed = run(first(|| Step::Return(Err(Failure(Retry::Slowly)))));
    let began = Instant::now();
    bed.queue.add("a", Live);
    assert_eq!(bed.ends(2).await, [("a", End::Failed), ("a", End::Done)]);
    assert!(began.elapsed() >= Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn events_do_not_bypass_the_time_that_the_server_named() {
    let asked = Duration::from_secs(20);
    let bed = run(first(move || Step::Return(Err(Failure(Retry::NotBefore(asked))))));
    let began = Instant::now();
    bed.queue.add("a", Live);
    bed.ends(1).await;
    bed.queue.add("a", Live);
    bed.ends(2).await;
    assert!(began.elapsed() >= asked);
}

#[tokio::test(start_paused = true)]
async fn a_requeue_is_no_failure() {
    let bed = run(first(|| Step::Return(Ok(Outcome::RequeueAfter(Duration::from_mins(5))))));
    let began = Instant::now();
    bed.queue.add("a", Live);
    assert_eq!(bed.ends(2).await, [("a", End::Requeued), ("a", End::Done)]);
    assert!(began.elapsed() >= Duration::from_mins(5));
    assert!(bed.backoff.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_awaits_its_cache_comes_back_with_the_event() {
    let bed = run(first(|| Step::Return(Ok(Outcome::AwaitCache(Duration::from_secs(10))))));
    let began = Instant::now();
    bed.queue.add("a", Live);
    bed.ends(1).await;
    bed.queue.add("a", Live);
    assert_eq!(bed.ends(2).await, [("a", End::AwaitingCache), ("a", End::Done)]);
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn no_more_passes_run_at_once_than_allowed() {
    let bed = run(|_, _| Step::Wait);
    for key in ["a", "b", "c", "d", "e"] {
        bed.queue.add(key, Live);
    }
    bed.until(|bed| bed.seen.running.lock().unwrap().len() == LIMITS.concurrency).await;
    assert_eq!(bed.queue.len(), 2);
    bed.permits.add_permits(5);
    bed.ends(5).await;
    assert_eq!(bed.seen.most_at_once.load(Ordering::Relaxed), LIMITS.concurrency);
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_running_passes_finish_and_takes_no_more_keys() {
    let bed = run(|_, _| Step::Wait);
    for key in ["a", "b", "c", "d"] {
        bed.queue.add(key, Live);
    }
    bed.until(|bed| bed.seen.running.lock().unwrap().len() == 3).await;
    bed.permits.add_permits(4);
    let seen = Arc::clone(&bed.seen);
    assert_eq!(bed.stop().await, 0);
    assert_eq!(seen.ends.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn passes_that_do_not_finish_are_dropped_when_the_drain_time_is_over() {
    let bed = run(|_, _| Step::Hang);
    bed.queue.add("a", Live);
    bed.queue.add("b", Live);
    bed.until(|bed| bed.seen.running.lock().unwrap().len() == 2).await;
    let began = Instant::now();
    assert_eq!(bed.stop().await, 2);
    assert_eq!(began.elapsed().as_secs(), LIMITS.drain.as_secs());
}

#[tokio::test(start_paused = true)]
async fn the_pool_ends_with_its_queue() {
    let bed = run(|_, _| DONE);
    bed.queue.shut_down();
    assert_eq!(timeout(Duration::from_mins(1), bed.pool).await.unwrap().unwrap(), 0);
}
