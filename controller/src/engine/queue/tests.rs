use std::{
    collections::{BTreeSet, VecDeque},
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::FutureExt;
use proptest::prelude::*;
use tokio::time::{advance, timeout};

use super::{
    Priority::{Initial, Live},
    state::Taken,
    *,
};

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

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u8, Priority),
    Requeue(u8, u64),
    Take,
    /// Ends the pass over the n-th key that is being processed, with a back-off or without.
    Done(usize, Option<u64>),
    Forget(u8),
    Advance(u64),
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Live), Just(Initial)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8, priority()).prop_map(|(key, priority)| Step::Add(key, priority)),
        1 => (0..6_u8, 0..5_000_u64).prop_map(|(key, delay)| Step::Requeue(key, delay)),
        3 => Just(Step::Take),
        3 => (0..6_usize, proptest::option::of(0..5_000_u64)).prop_map(|(n, delay)| Step::Done(n, delay)),
        1 => (0..6_u8).prop_map(Step::Forget),
        1 => (0..3_000_u64).prop_map(Step::Advance),
    ]
}

/// Runs steps and keeps the books that the queue's promises are checked against.
struct Run {
    state: State<u8>,
    now: Instant,
    processing: Vec<u8>,
    /// Keys that were asked for since their last pass began.
    owed: BTreeSet<u8>,
}

impl Run {
    fn new() -> Self {
        let state = State::new(Arc::new(()));
        Self { state, now: Instant::now(), processing: Vec::new(), owed: BTreeSet::new() }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Add(key, priority) => {
                self.state.add(key, priority, self.now);
                self.owed.insert(key);
            }
            Step::Requeue(key, delay) => {
                self.state.requeue(key, self.now + Duration::from_millis(delay), self.now);
                self.owed.insert(key);
            }
            Step::Take => {
                self.take();
            }
            Step::Done(n, back_off) if !self.processing.is_empty() => {
                let key = self.processing.remove(n % self.processing.len());
                if let Some(delay) = back_off {
                    let at = self.now + Duration::from_millis(delay);
                    self.state.back_off(key, at, EarlyTry::Allowed, self.now);
                    self.owed.insert(key);
                }
                self.state.done(&key, self.now);
            }
            // Only keys that wait for nothing else; what a forgotten key is owed depends on more than these books.
            Step::Forget(key) if !self.owed.contains(&key) => self.state.forget(&key),
            Step::Done(..) | Step::Forget(_) => {}
            Step::Advance(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn take(&mut self) -> Option<u8> {
        let Taken::Key { key, .. } = self.state.take(self.now) else {
            return None;
        };
        assert!(!self.processing.contains(&key), "key {key} is in two hands");
        assert!(self.owed.remove(&key), "nobody asked for key {key}");
        self.processing.push(key);
        Some(key)
    }

    /// Lets all passes end and all delays pass, and takes what there is.
    fn finish(&mut self) {
        for key in std::mem::take(&mut self.processing) {
            self.state.done(&key, self.now);
        }
        self.now += Duration::from_hours(1);
        while self.take().is_some() {}
        assert!(self.owed.is_empty(), "lost: {:?}", self.owed);
        let stats = self.state.stats(self.now);
        assert_eq!((stats.live, stats.initial, stats.delayed), (0, 0, 0));
    }
}

proptest! {
    #[test]
    fn no_key_is_lost_or_doubled_or_in_two_hands(steps in proptest::collection::vec(step(), 0..120)) {
        let mut run = Run::new();
        for step in steps {
            run.apply(step);
        }
        run.finish();
    }

    #[test]
    fn keys_leave_live_first_and_in_order(adds in proptest::collection::vec((0..30_u8, priority()), 0..120)) {
        let (mut live, mut initial) = (VecDeque::new(), VecDeque::new());
        let mut run = Run::new();
        for (key, priority) in adds {
            run.apply(Step::Add(key, priority));
            if live.contains(&key) {
                continue;
            }
            match priority {
                Live => {
                    initial.retain(|queued| *queued != key);
                    live.push_back(key);
                }
                Initial if initial.contains(&key) => {}
                Initial => initial.push_back(key),
            }
        }
        let expected: Vec<_> = live.into_iter().chain(initial).collect();
        let taken: Vec<_> = std::iter::from_fn(|| run.take()).collect();
        prop_assert_eq!(taken, expected);
    }

    /// With a worker for each key somebody is always idle, and must not sleep past the time.
    #[test]
    fn an_idle_worker_takes_each_key_when_it_is_due(
        delays in proptest::collection::vec((0..20_u64, 0..20_u64), 1..8)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = Arc::new(WorkQueue::new(Arc::new(())));
            let workers: Vec<_> = delays.iter().map(|_| {
                let queue = Arc::clone(&queue);
                // Takes a key and never gives it back: a long pass.
                tokio::spawn(async move { (queue.get().await, Instant::now()) })
            }).collect();
            let mut due = Vec::new();
            for (key, (pause, delay)) in delays.into_iter().enumerate() {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                queue.add_after(key, Duration::from_secs(delay));
                due.push((Some(key), Instant::now() + Duration::from_secs(delay)));
            }
            let mut taken = Vec::new();
            for worker in workers {
                let (key, when) = timeout(Duration::from_hours(1), worker).await.unwrap().unwrap();
                taken.push((key, when));
            }
            taken.sort_unstable();
            assert_eq!(taken, due);
        });
    }

    #[test]
    fn events_give_a_failing_key_at_most_one_try_more_per_step(
        gaps in proptest::collection::vec(0..500_u64, 1..200),
        wait in 1_000..60_000_u64,
    ) {
        let mut run = Run::new();
        run.apply(Step::Add(0, Live));
        run.take();
        let due = run.now + Duration::from_millis(wait);
        run.state.back_off(0, due, EarlyTry::Allowed, run.now);
        run.state.done(&0, run.now);
        run.processing.clear();
        let mut tries = 0;
        for gap in gaps {
            run.apply(Step::Add(0, Live));
            run.apply(Step::Advance(gap));
            if run.now < due && run.take().is_some() {
                tries += 1;
                run.processing.clear();
                // Fails again: the worker gives it what is left of the wait, and no early try.
                run.state.back_off(0, due, EarlyTry::Denied, run.now);
                run.state.done(&0, run.now);
            }
        }
        prop_assert!(tries <= 1, "{tries} tries in one step");
    }
}
