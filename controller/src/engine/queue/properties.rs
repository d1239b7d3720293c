//! Random sequences of operations, against books kept beside the queue.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Priority::{Initial, Live};
use super::state::Taken;
use super::*;

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
            // Only keys that wait for nothing else; what a forgotten key is owed depends on more than these
            // books.
            Step::Forget(key) if !self.owed.contains(&key) => self.state.forget(&key),
            Step::Done(..) | Step::Forget(_) => {}
            Step::Advance(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn take(&mut self) -> Option<u8> {
        let Taken::Key(key) = self.state.take(self.now) else {
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

/// Adds keys after pauses and with delays, in seconds, while as many workers wait, each for one long pass.
/// Gives when each key was taken, and when it was due.
async fn work_with_an_idle_worker_for_each_key(
    delays: Vec<(u64, u64)>,
) -> (BTreeSet<(usize, Instant)>, BTreeSet<(usize, Instant)>) {
    let queue = Arc::new(WorkQueue::new(Arc::new(())));
    let mut workers = JoinSet::new();
    for _ in &delays {
        let queue = Arc::clone(&queue);
        workers.spawn(async move { (queue.get().await.unwrap(), Instant::now()) });
    }
    let mut due = BTreeSet::new();
    for (key, (pause, delay)) in delays.into_iter().enumerate() {
        sleep(Duration::from_secs(pause)).await;
        queue.add_after(key, Duration::from_secs(delay));
        due.insert((key, Instant::now() + Duration::from_secs(delay)));
    }
    let taken = timeout(Duration::from_hours(1), workers.join_all()).await.expect("a key was lost");
    (taken.into_iter().collect(), due)
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
        let mut expected = Vec::new();
        while !(live.is_empty() && initial.is_empty()) {
            expected.extend(live.drain(..live.len().min(LIVE_RUN as usize)));
            let next = if live.is_empty() { initial.len() } else { initial.len().min(1) };
            expected.extend(initial.drain(..next));
        }
        let taken: Vec<_> = std::iter::from_fn(|| run.take()).collect();
        prop_assert_eq!(taken, expected);
    }

    #[test]
    fn a_steady_stream_of_live_events_does_not_starve_initial_keys(waiting in 1..20_u8) {
        let mut run = Run::new();
        for key in 0..waiting {
            run.apply(Step::Add(key, Initial));
        }
        let mut left = usize::from(waiting);
        let most = left * (LIVE_RUN as usize + 1);
        for taken in 0..most {
            // Another event whenever a worker looks.
            run.apply(Step::Add(100 + u8::try_from(taken % 2).unwrap(), Live));
            left -= usize::from(run.take().unwrap() < waiting);
            run.apply(Step::Done(run.processing.len() - 1, None));
        }
        prop_assert_eq!(left, 0, "initial keys that still wait after {} passes", most);
    }

    #[test]
    fn an_idle_worker_takes_each_key_when_it_is_due(
        delays in proptest::collection::vec((0..20_u64, 0..20_u64), 1..8)
    ) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (taken, due) = runtime.block_on(work_with_an_idle_worker_for_each_key(delays));
        prop_assert_eq!(taken, due);
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
