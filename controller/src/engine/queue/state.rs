//! The queue without its waiting: plain data, synchronous changes, time passed in.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{EARLY_TRY, EarlyTry, LIVE_RUN, Priority, QueueMetrics, QueueStats};

pub(super) struct State<K> {
    /// Ready keys in order. A promoted key leaves an entry behind in its old lane: it counts only while its
    /// number is the one in `ready`.
    live: VecDeque<(u64, K)>,
    initial: VecDeque<(u64, K)>,
    ready: HashMap<K, Ready>,
    processing: HashMap<K, Pass>,
    delayed: HashMap<K, Delayed>,
    /// `delayed` by time; the number keeps equal times in order.
    due: BTreeMap<(Instant, u64), K>,
    next_number: u64,
    /// Live keys that left since an initial one did.
    live_run: u32,
    is_shut_down: bool,
    metrics: Arc<dyn QueueMetrics>,
}

struct Ready {
    priority: Priority,
    number: u64,
    since: Instant,
}

struct Pass {
    priority: Priority,
    started: Instant,
    /// Added while processing: one more pass is due, in this lane.
    again: Option<Priority>,
}

struct Delayed {
    at: (Instant, u64),
    priority: Priority,
    cause: Cause,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Requeue,
    BackOff(EarlyTry),
}

pub(super) enum Taken<K> {
    Key(K),
    Nothing { next_due: Option<Instant> },
    ShutDown,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(metrics: Arc<dyn QueueMetrics>) -> Self {
        Self {
            live: VecDeque::new(),
            initial: VecDeque::new(),
            ready: HashMap::new(),
            processing: HashMap::new(),
            delayed: HashMap::new(),
            due: BTreeMap::new(),
            next_number: 0,
            live_run: 0,
            is_shut_down: false,
            metrics,
        }
    }

    pub(super) fn add(&mut self, key: K, priority: Priority, now: Instant) {
        if self.is_shut_down {
            return;
        }
        // What came due before this addition stands before it in line.
        self.collect_due(now);
        if self.is_backing_off(&key) {
            self.note_event_during_back_off(&key, priority, now);
        } else {
            self.admit(key, priority, now);
        }
    }

    pub(super) fn requeue(&mut self, key: K, at: Instant, now: Instant) {
        let is_later = self.delayed.get(&key).is_some_and(|pending| pending.at.0 <= at);
        if self.is_shut_down || self.is_backing_off(&key) || is_later {
            return;
        }
        self.metrics.retried();
        self.delay(key, at, Priority::Initial, Cause::Requeue);
        self.collect_due(now);
    }

    pub(super) fn back_off(&mut self, key: K, at: Instant, early_try: EarlyTry, now: Instant) {
        if self.is_shut_down {
            return;
        }
        self.metrics.retried();
        let priority = self.processing.get(&key).map_or(Priority::Initial, |pass| pass.priority);
        self.delay(key, at, priority, Cause::BackOff(early_try));
        self.collect_due(now);
    }

    pub(super) fn take(&mut self, now: Instant) -> Taken<K> {
        if self.is_shut_down {
            return Taken::ShutDown;
        }
        self.collect_due(now);
        let Some((key, ready)) = self.pop_ready() else {
            return Taken::Nothing { next_due: self.due.keys().next().map(|(at, _)| *at) };
        };
        // This pass sees newer state than whatever asked for a requeue, and decides again.
        self.forget(&key);
        self.metrics.depth(self.ready.len());
        self.metrics.waited(now - ready.since);
        self.processing.insert(key.clone(), Pass { priority: ready.priority, started: now, again: None });
        Taken::Key(key)
    }

    pub(super) fn done(&mut self, key: &K, now: Instant) {
        let Some((key, pass)) = self.processing.remove_entry(key) else {
            return;
        };
        self.metrics.worked(now - pass.started);
        match pass.again {
            None => {}
            // Counted when it was added, so it goes straight to its lane.
            Some(priority) if !self.is_shut_down && !self.is_backing_off(&key) => {
                self.enqueue(key, priority, now);
            }
            Some(priority) => self.note_event_during_back_off(&key, priority, now),
        }
        self.collect_due(now);
    }

    pub(super) fn forget(&mut self, key: &K) {
        if let Some(delayed) = self.delayed.remove(key) {
            self.due.remove(&delayed.at);
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.is_shut_down = true;
        self.live.clear();
        self.initial.clear();
        self.ready.clear();
        self.delayed.clear();
        self.due.clear();
        self.metrics.depth(0);
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn stats(&self, now: Instant) -> QueueStats {
        let live = self.ready.values().filter(|ready| ready.priority == Priority::Live).count();
        let running = || self.processing.values().map(|pass| now - pass.started);
        QueueStats {
            live,
            initial: self.ready.len() - live,
            delayed: self.delayed.len(),
            processing: self.processing.len(),
            unfinished_work: running().sum(),
            longest_running: running().max().unwrap_or(Duration::ZERO),
        }
    }

    pub(super) fn in_work(&self, now: Instant) -> Vec<(K, Duration)> {
        self.processing.iter().map(|(key, pass)| (key.clone(), now - pass.started)).collect()
    }

    fn is_backing_off(&self, key: &K) -> bool {
        self.delayed.get(key).is_some_and(|delayed| delayed.cause != Cause::Requeue)
    }

    fn note_event_during_back_off(&mut self, key: &K, priority: Priority, now: Instant) {
        let early = now + EARLY_TRY;
        let Some(delayed) = self.delayed.get_mut(key).filter(|_| priority == Priority::Live) else {
            return;
        };
        delayed.priority = Priority::Live;
        let cause = delayed.cause;
        if cause == Cause::BackOff(EarlyTry::Allowed) && early < delayed.at.0 {
            self.delay(key.clone(), early, Priority::Live, cause);
        }
    }

    /// Makes ready what is due.
    fn collect_due(&mut self, now: Instant) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            if let Some(delayed) = self.delayed.remove(&key) {
                self.admit(key, delayed.priority, delayed.at.0);
            }
        }
    }

    /// Makes `key` ready, or its running pass be followed by another, or its lane the better one of both.
    fn admit(&mut self, key: K, priority: Priority, since: Instant) {
        if let Some(pass) = self.processing.get_mut(&key) {
            if pass.again.is_none() {
                self.metrics.added();
            }
            pass.again = Some(pass.again.map_or(priority, |before| before.min(priority)));
        } else if let Some(ready) = self.ready.get(&key) {
            if priority < ready.priority {
                let since = ready.since;
                self.enqueue(key, priority, since);
            }
        } else {
            self.metrics.added();
            self.enqueue(key, priority, since);
        }
    }

    fn delay(&mut self, key: K, at: Instant, priority: Priority, cause: Cause) {
        self.forget(&key);
        let at = (at, self.number());
        self.due.insert(at, key.clone());
        self.delayed.insert(key, Delayed { at, priority, cause });
    }

    fn enqueue(&mut self, key: K, priority: Priority, since: Instant) {
        let number = self.number();
        self.ready.insert(key.clone(), Ready { priority, number, since });
        match priority {
            Priority::Live => self.live.push_back((number, key)),
            Priority::Initial => self.initial.push_back((number, key)),
        }
        self.metrics.depth(self.ready.len());
    }

    fn pop_ready(&mut self) -> Option<(K, Ready)> {
        let is_initials_turn = self.live_run >= LIVE_RUN;
        let [first, second] = if is_initials_turn {
            [Priority::Initial, Priority::Live]
        } else {
            [Priority::Live, Priority::Initial]
        };
        let (key, ready) = self.pop_lane(first).or_else(|| self.pop_lane(second))?;
        self.live_run = if ready.priority == Priority::Live { self.live_run.saturating_add(1) } else { 0 };
        Some((key, ready))
    }

    fn pop_lane(&mut self, lane: Priority) -> Option<(K, Ready)> {
        let lane = match lane {
            Priority::Live => &mut self.live,
            Priority::Initial => &mut self.initial,
        };
        loop {
            let (number, key) = lane.pop_front()?;
            if self.ready.get(&key).is_some_and(|ready| ready.number == number) {
                return self.ready.remove_entry(&key);
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}
