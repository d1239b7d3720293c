use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio::time::{advance, timeout};

use super::Priority::{Initial, Live};
use super::*;

type Key = &'static str;

const MOMENT: Duration = Duration::from_millis(1);

fn queue() -> WorkQueue<Key> {
    WorkQueue::new(Arc::new(()))
}

impl WorkQueue<Key> {
    /// The next key if it is there now, as a worker that begins a pass.
    fn take_now(&self) -> Option<Key> {
        self.get().now_or_never().flatten()
    }

    /// All keys that are ready, each passed over at once.
    fn drain(&self) -> Vec<Key> {
        std::iter::from_fn(|| self.take_now().inspect(|key| self.done(key))).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn keys_leave_in_the_order_in_which_they_came() {
    let queue = queue();
    for key in ["c", "a", "b"] {
        queue.add(key, Live);
    }
    assert_eq!(queue.drain(), ["c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_twice_is_processed_once() {
    let queue = queue();
    queue.add("a", Live);
    queue.add("b", Live);
    queue.add("a", Live);
    assert_eq!(queue.drain(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_processed_gets_one_more_pass() {
    let queue = queue();
    queue.add("a", Live);
    assert_eq!(queue.take_now(), Some("a"));
    queue.add("a", Live);
    queue.add("a", Live);
    assert_eq!(queue.take_now(), None, "a second worker got the key");
    queue.done(&"a");
    assert_eq!(queue.drain(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn live_keys_leave_before_initial_ones() {
    let queue = queue();
    queue.add("old", Initial);
    queue.add("new", Live);
    assert_eq!(queue.drain(), ["new", "old"]);
}

#[tokio::test(start_paused = true)]
async fn a_live_event_promotes_an_initial_key() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key, Initial);
    }
    queue.add("c", Live);
    queue.add("c", Initial);
    assert_eq!(queue.drain(), ["c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_promoted_key_that_comes_back_as_initial_goes_to_the_end() {
    let queue = queue();
    for key in ["a", "b"] {
        queue.add(key, Initial);
    }
    queue.add("a", Live);
    assert_eq!(queue.take_now(), Some("a"));
    queue.done(&"a");
    queue.add("a", Initial);
    assert_eq!(queue.drain(), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn of_several_delays_the_earliest_wins_and_causes_one_pass() {
    let queue = queue();
    queue.add_after("a", Duration::from_secs(9));
    queue.add_after("a", Duration::from_secs(3));
    queue.add_after("a", Duration::from_secs(6));
    advance(Duration::from_millis(2_999)).await;
    assert_eq!(queue.drain(), [""; 0]);
    advance(MOMENT).await;
    assert_eq!(queue.drain(), ["a"]);
    advance(Duration::from_mins(1)).await;
    assert_eq!(queue.drain(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_supersedes_the_requeue_that_was_pending() {
    let queue = queue();
    queue.add_after("a", Duration::from_secs(3));
    queue.add("a", Live);
    assert_eq!(queue.drain(), ["a"]);
    advance(Duration::from_mins(1)).await;
    assert_eq!(queue.drain(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_came_due_first_stands_first_in_line() {
    let queue = queue();
    queue.add_after("due", Duration::from_secs(1));
    advance(Duration::from_secs(2)).await;
    queue.add("later", Initial);
    assert_eq!(queue.drain(), ["due", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_key_is_not_retried() {
    let queue = queue();
    queue.add_after("requeued", Duration::from_secs(1));
    queue.back_off("failing", Duration::from_secs(1), EarlyTry::Allowed);
    queue.forget(&"requeued");
    queue.forget(&"failing");
    advance(Duration::from_secs(2)).await;
    assert_eq!(queue.drain(), [""; 0]);
}

/// A queue whose key failed and now waits.
async fn backing_off(delay: Duration, early_try: EarlyTry) -> WorkQueue<Key> {
    let queue = queue();
    queue.add("a", Live);
    assert_eq!(queue.get().await, Some("a"));
    queue.back_off("a", delay, early_try);
    queue.done(&"a");
    queue
}

#[tokio::test(start_paused = true)]
async fn a_key_in_back_off_is_retried_when_its_wait_is_over() {
    let queue = backing_off(Duration::from_secs(40), EarlyTry::Allowed).await;
    advance(Duration::from_millis(39_999)).await;
    assert_eq!(queue.take_now(), None);
    advance(MOMENT).await;
    assert_eq!(queue.take_now(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_live_event_buys_an_early_try_but_not_at_once() {
    let queue = backing_off(Duration::from_secs(40), EarlyTry::Allowed).await;
    queue.add("a", Live);
    advance(EARLY_TRY.saturating_sub(MOMENT)).await;
    assert_eq!(queue.take_now(), None);
    advance(MOMENT).await;
    assert_eq!(queue.take_now(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn further_events_do_not_move_the_early_try() {
    let queue = backing_off(Duration::from_secs(40), EarlyTry::Allowed).await;
    queue.add("a", Live);
    for _ in 0..9 {
        advance(EARLY_TRY / 10).await;
        queue.add("a", Live);
        assert_eq!(queue.take_now(), None);
    }
    advance(EARLY_TRY / 10).await;
    assert_eq!(queue.drain(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_never_prolongs_a_back_off() {
    let queue = backing_off(Duration::from_millis(5), EarlyTry::Allowed).await;
    queue.add("a", Live);
    advance(Duration::from_millis(5)).await;
    assert_eq!(queue.take_now(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn an_event_does_not_shorten_a_wait_that_had_its_early_try() {
    let queue = backing_off(Duration::from_secs(40), EarlyTry::Denied).await;
    queue.add("a", Live);
    advance(Duration::from_millis(39_999)).await;
    assert_eq!(queue.take_now(), None);
    advance(MOMENT).await;
    assert_eq!(queue.take_now(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn initial_keys_and_requeues_do_not_shorten_a_back_off() {
    let queue = backing_off(Duration::from_secs(40), EarlyTry::Allowed).await;
    queue.add("a", Initial);
    queue.add_after("a", Duration::from_secs(2));
    advance(Duration::from_millis(39_999)).await;
    assert_eq!(queue.take_now(), None);
    advance(MOMENT).await;
    assert_eq!(queue.drain(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_during_a_failing_pass_does_not_bypass_its_back_off() {
    let queue = queue();
    queue.add("a", Live);
    assert_eq!(queue.take_now(), Some("a"));
    queue.add("a", Live);
    queue.back_off("a", Duration::from_secs(40), EarlyTry::Allowed);
    queue.done(&"a");
    assert_eq!(queue.take_now(), None);
    advance(EARLY_TRY).await;
    assert_eq!(queue.drain(), ["a"], "the event was lost");
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_keeps_its_lane() {
    let queue = backing_off(Duration::from_millis(5), EarlyTry::Allowed).await;
    queue.add("initial", Initial);
    advance(Duration::from_millis(5)).await;
    assert_eq!(queue.drain(), ["a", "initial"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_is_woken_by_an_addition() {
    let queue = Arc::new(queue());
    let worker = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.get().await }
    });
    tokio::task::yield_now().await;
    queue.add("a", Live);
    assert_eq!(timeout(Duration::from_secs(1), worker).await.unwrap().unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn idle_workers_take_keys_when_they_come_due_even_if_others_are_busy() {
    let queue = Arc::new(queue());
    let began = Instant::now();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = Arc::clone(&queue);
            // Takes a key and never gives it back: a long pass.
            tokio::spawn(async move { (queue.get().await, began.elapsed()) })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add_after("c", Duration::from_secs(3));
    queue.add_after("a", Duration::from_secs(1));
    queue.add_after("b", Duration::from_secs(2));

    let mut taken = Vec::new();
    for worker in workers {
        let (key, when) = timeout(Duration::from_secs(10), worker).await.unwrap().unwrap();
        taken.push((key.unwrap(), when.as_secs()));
    }
    taken.sort_unstable();
    assert_eq!(taken, [("a", 1), ("b", 2), ("c", 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_waiting_takes_no_key_with_it() {
    let queue = queue();
    assert!(timeout(Duration::from_secs(1), queue.get()).await.is_err());
    queue.add("a", Live);
    assert_eq!(queue.drain(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_waiting_workers_and_hands_out_nothing_more() {
    let queue = Arc::new(queue());
    let worker = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.get().await }
    });
    tokio::task::yield_now().await;
    queue.shut_down();
    assert_eq!(timeout(Duration::from_secs(1), worker).await.unwrap().unwrap(), None);
    queue.add("a", Live);
    assert_eq!(timeout(Duration::from_secs(1), queue.get()).await.unwrap(), None);
}

#[derive(Default)]
struct Counts {
    added: AtomicUsize,
    depth: AtomicUsize,
    retried: AtomicUsize,
    waited_seconds: AtomicUsize,
    worked_seconds: AtomicUsize,
}

fn seconds(time: Duration) -> usize {
    usize::try_from(time.as_secs()).unwrap()
}

impl QueueMetrics for Counts {
    fn depth(&self, ready: usize) {
        self.depth.store(ready, Ordering::Relaxed);
    }
    fn added(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
    }
    fn waited(&self, ready_for: Duration) {
        self.waited_seconds.fetch_add(seconds(ready_for), Ordering::Relaxed);
    }
    fn worked(&self, took: Duration) {
        self.worked_seconds.fetch_add(seconds(took), Ordering::Relaxed);
    }
    fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_follow_a_key_through_the_queue() {
    let counts = Arc::new(Counts::default());
    let queue = WorkQueue::new(Arc::clone(&counts) as Arc<dyn QueueMetrics>);
    queue.add("a", Live);
    queue.add("a", Live);
    assert_eq!(counts.depth.load(Ordering::Relaxed), 1);
    advance(Duration::from_secs(2)).await;
    assert_eq!(queue.take_now(), Some("a"));
    assert_eq!(counts.depth.load(Ordering::Relaxed), 0);
    advance(Duration::from_secs(5)).await;
    let stats = queue.stats();
    assert_eq!((stats.processing, stats.longest_running), (1, Duration::from_secs(5)));
    queue.add_after("a", Duration::from_secs(1));
    queue.done(&"a");

    assert_eq!(counts.added.load(Ordering::Relaxed), 1);
    assert_eq!(counts.retried.load(Ordering::Relaxed), 1);
    assert_eq!(counts.waited_seconds.load(Ordering::Relaxed), 2);
    assert_eq!(counts.worked_seconds.load(Ordering::Relaxed), 5);
}
