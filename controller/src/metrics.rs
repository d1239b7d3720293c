//! What the controller counts. Names are controller-runtime's and client-go's where they have one, so that stock dashboards
//! and alerts work; what is ours begins with `webservice_`. Labels are bounded: never an object's name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use webservice_api::conditions::{self, READY};
use webservice_ops::metrics::register;

use crate::decide::{Action, Decision};
use crate::engine::feeder::ProblemKind;
use crate::engine::lease::Role;
use crate::engine::{End, ObjectKey, OwnWrites, PassObserver, QueueMetrics, WorkQueue};
use crate::leadership::LEASE;
use crate::observe::{Caches, Observation};

/// The value of the label `controller`, and of `name` for the queue.
const CONTROLLER: &str = "webservice";

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByController {
    controller: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByResult {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByQueue {
    name: &'static str,
    controller: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByRequest {
    method: String,
    code: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByKind {
    kind: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByAction {
    action: &'static str,
}

#[derive(Clone, Copy, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByElection {
    name: &'static str,
}

const THIS: ByController = ByController { controller: CONTROLLER };
const QUEUE: ByQueue = ByQueue { name: CONTROLLER, controller: CONTROLLER };

fn latencies() -> Histogram {
    // 1 ms to about 65 s.
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn histograms<L: Clone + Eq + std::hash::Hash>() -> Histograms<L> {
    Family::new_with_constructor(latencies)
}

/// See the [module](self).
pub struct Metrics {
    passes: Family<ByResult, Counter>,
    pass_errors: Family<ByController, Counter>,
    pass_panics: Family<ByController, Counter>,
    pass_timeouts: Family<ByController, Counter>,
    pass_seconds: Histograms<ByController>,
    active_workers: Family<ByController, Gauge>,
    max_workers: Family<ByController, Gauge>,
    queue_depth: Family<ByQueue, Gauge>,
    queue_adds: Family<ByQueue, Counter>,
    queue_retries: Family<ByQueue, Counter>,
    queue_seconds: Histograms<ByQueue>,
    work_seconds: Histograms<ByQueue>,
    requests: Family<ByRequest, Counter>,
    watch_problems: Family<ByKind, Counter>,
    decisions: Family<ByAction, Counter>,
    drift_corrections: Counter,
}

impl Metrics {
    /// All metrics, registered with `registry`.
    pub fn register(registry: &mut Registry, concurrency: usize) -> Arc<Self> {
        let metrics = Self {
            passes: register(
                registry,
                "controller_runtime_reconcile",
                "Passes, by how they ended",
                Family::default(),
            ),
            pass_errors: register(
                registry,
                "controller_runtime_reconcile_errors",
                "Passes that failed",
                Family::default(),
            ),
            pass_panics: register(
                registry,
                "controller_runtime_reconcile_panics",
                "Passes that panicked",
                Family::default(),
            ),
            pass_timeouts: register(
                registry,
                "controller_runtime_reconcile_timeouts",
                "Passes that overran their deadline",
                Family::default(),
            ),
            pass_seconds: register(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Time per pass",
                histograms(),
            ),
            active_workers: register(
                registry,
                "controller_runtime_active_workers",
                "Passes that are running",
                Family::default(),
            ),
            max_workers: register(
                registry,
                "controller_runtime_max_concurrent_reconciles",
                "Most passes at a time",
                Family::default(),
            ),
            queue_depth: register(
                registry,
                "workqueue_depth",
                "Keys that are ready for a worker",
                Family::default(),
            ),
            queue_adds: register(registry, "workqueue_adds", "Keys added", Family::default()),
            queue_retries: register(
                registry,
                "workqueue_retries",
                "Keys added with a delay",
                Family::default(),
            ),
            queue_seconds: register(
                registry,
                "workqueue_queue_duration_seconds",
                "Time that a key was ready before a worker took it",
                histograms(),
            ),
            work_seconds: register(
                registry,
                "workqueue_work_duration_seconds",
                "Time that a worker had a key",
                histograms(),
            ),
            requests: register(
                registry,
                "rest_client_requests",
                "Requests to the API server, by method and code",
                Family::default(),
            ),
            watch_problems: register(
                registry,
                "webservice_watch_problems",
                "Times that a watch failed, by kind of problem",
                Family::default(),
            ),
            decisions: register(registry, "webservice_decisions", "Decisions, by action", Family::default()),
            drift_corrections: register(
                registry,
                "webservice_drift_corrections",
                "Children put back after somebody else changed them",
                Counter::default(),
            ),
        };
        // Known from the start, so that a rate over them is right from the first failure on.
        metrics.max_workers.get_or_create(&THIS).set(i64::try_from(concurrency).unwrap_or(i64::MAX));
        for counter in [&metrics.pass_errors, &metrics.pass_panics, &metrics.pass_timeouts] {
            drop(counter.get_or_create(&THIS));
        }
        Arc::new(metrics)
    }

    /// A request was answered with `code`, or not at all.
    pub fn requested(&self, method: &http::Method, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.requests.get_or_create(&ByRequest { method: method.to_string(), code }).inc();
    }

    /// A watch failed.
    pub fn watch_failed(&self, kind: ProblemKind) {
        self.watch_problems.get_or_create(&ByKind { kind: kind.as_str() }).inc();
    }

    /// A decision was made.
    pub fn decided(&self, seen: &Observation, decision: &Decision) {
        self.decisions.get_or_create(&ByAction { action: decision.action.as_str() }).inc();
        // The spec has been acted on before: so it was the child that changed.
        let is_drift = seen.owner.status.observed_generation == Some(seen.owner.generation);
        if is_drift && matches!(decision.action, Action::Update { .. } | Action::Replace) {
            self.drift_corrections.inc();
        }
    }
}

impl PassObserver<ObjectKey> for Metrics {
    fn started(&self, _key: &ObjectKey) {
        self.active_workers.get_or_create(&THIS).inc();
    }

    fn ended(&self, _key: &ObjectKey, end: End, took: Duration) {
        self.active_workers.get_or_create(&THIS).dec();
        self.pass_seconds.get_or_create(&THIS).observe(took.as_secs_f64());
        let result = match end {
            End::Done => "success",
            End::Requeued | End::AwaitingCache => "requeue_after",
            End::Failed | End::Panicked | End::TimedOut => "error",
        };
        self.passes.get_or_create(&ByResult { controller: CONTROLLER, result }).inc();
        if result == "error" {
            self.pass_errors.get_or_create(&THIS).inc();
        }
        match end {
            End::Panicked => _ = self.pass_panics.get_or_create(&THIS).inc(),
            End::TimedOut => _ = self.pass_timeouts.get_or_create(&THIS).inc(),
            _ => {}
        }
    }
}

impl QueueMetrics for Metrics {
    fn depth(&self, ready: usize) {
        self.queue_depth.get_or_create(&QUEUE).set(i64::try_from(ready).unwrap_or(i64::MAX));
    }

    fn added(&self) {
        self.queue_adds.get_or_create(&QUEUE).inc();
    }

    fn waited(&self, ready_for: Duration) {
        self.queue_seconds.get_or_create(&QUEUE).observe(ready_for.as_secs_f64());
    }

    fn worked(&self, took: Duration) {
        self.work_seconds.get_or_create(&QUEUE).observe(took.as_secs_f64());
    }

    fn retried(&self) {
        self.queue_retries.get_or_create(&QUEUE).inc();
    }
}

/// What is read when it is asked for: it changes by itself, or has its home elsewhere.
pub struct State {
    /// The caches.
    pub caches: Caches,
    /// The queue.
    pub queue: Arc<WorkQueue<ObjectKey>>,
    /// The own-write guard.
    pub own_writes: Arc<OwnWrites<ObjectKey>>,
    /// The part of this process in the election.
    pub role: watch::Receiver<Role>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.queue.stats();
        let seconds = [
            (
                "workqueue_unfinished_work_seconds",
                "Time that running passes took so far, added up",
                stats.unfinished_work,
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "Time that the longest running pass took so far",
                stats.longest_running,
            ),
        ];
        for (name, help, value) in seconds {
            gauges(&mut encoder, name, help, &[(QUEUE, value.as_secs_f64())])?;
        }
        gauges(
            &mut encoder,
            "webservice_objects",
            "WebServices, by the state of their Ready condition",
            &self.by_ready(),
        )?;
        let cached =
            [("WebService", self.caches.webservices.len()), ("ConfigMap", self.caches.children.len())];
        let cached = cached.map(|(kind, count)| (ByKind { kind }, as_f64(count)));
        gauges(&mut encoder, "webservice_cached_objects", "Objects in the caches, by kind", &cached)?;
        let no_labels: [(&str, &str); 0] = [];
        let leads = f64::from(*self.role.borrow() == Role::Leader);
        let election = [(ByElection { name: LEASE }, leads)];
        gauges(
            &mut encoder,
            "leader_election_master_status",
            "1 while this process leads, else 0",
            &election,
        )?;
        let expired = [(no_labels, as_f64(usize::try_from(self.own_writes.expired()).unwrap_or(usize::MAX)))];
        gauges(&mut encoder, "webservice_own_writes_expired", "Writes that no watch showed in time", &expired)
    }
}

#[derive(Clone, Copy, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByReady {
    ready: &'static str,
}

impl State {
    fn by_ready(&self) -> [(ByReady, f64); 3] {
        const STATES: [&str; 3] = ["True", "False", "Unknown"];
        let mut counts = [0_usize; STATES.len()];
        self.caches.webservices.for_each(|_, record| {
            let ready = conditions::find(&record.status.conditions, READY);
            let state = STATES.iter().position(|state| ready.is_some_and(|ready| ready.status == *state));
            counts[state.unwrap_or(STATES.len() - 1)] += 1;
        });
        [0, 1, 2].map(|state| (ByReady { ready: STATES[state] }, as_f64(counts[state])))
    }
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: &[(L, f64)],
) -> fmt::Result {
    let kind = ConstGauge::new(0.0).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    values
        .iter()
        .try_for_each(|(labels, value)| ConstGauge::new(*value).encode(family.encode_family(labels)?))
}

#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53 objects")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use webservice_ops::metrics::exposition;

    use super::*;
    use crate::engine::{Scope, Store};

    fn state() -> State {
        let queue = Arc::new(WorkQueue::new(Metrics::register(&mut Registry::default(), 1)));
        let caches = Caches {
            webservices: Store::new([Scope::Cluster]).into(),
            children: Store::new([Scope::Cluster]).into(),
        };
        let own_writes = Arc::new(OwnWrites::new(|_| ()));
        State { caches, queue, own_writes, role: watch::channel(Role::Leader).1 }
    }

    /// The names in `registry` but for our own, each once and in order.
    fn stock_names(registry: &Registry) -> Vec<String> {
        let text = exposition(registry).unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let names = types.filter_map(|line| line.split(' ').next());
        let mut names: Vec<_> =
            names.filter(|name| !name.starts_with("webservice_")).map(ToOwned::to_owned).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_stock_dashboards_show_has_the_names_that_they_know() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, 1);
        registry.register_collector(Box::new(state()));
        let key = ObjectKey::new("shop", "checkout");
        metrics.started(&key);
        metrics.ended(&key, End::Done, Duration::ZERO);
        metrics.depth(0);
        metrics.added();
        metrics.retried();
        metrics.waited(Duration::ZERO);
        metrics.worked(Duration::ZERO);
        metrics.requested(&http::Method::GET, Some(200));
        assert_eq!(
            stock_names(&registry),
            [
                "controller_runtime_active_workers",
                "controller_runtime_max_concurrent_reconciles",
                "controller_runtime_reconcile_errors_total",
                "controller_runtime_reconcile_panics_total",
                "controller_runtime_reconcile_time_seconds",
                "controller_runtime_reconcile_timeouts_total",
                "controller_runtime_reconcile_total",
                "leader_election_master_status",
                "rest_client_requests_total",
                "workqueue_adds_total",
                "workqueue_depth",
                "workqueue_longest_running_processor_seconds",
                "workqueue_queue_duration_seconds",
                "workqueue_retries_total",
                "workqueue_unfinished_work_seconds",
                "workqueue_work_duration_seconds",
            ]
        );
    }
}
