//! What the controller counts. Names are controller-runtime's and client-go's where they have one, so that stock dashboards
//! and alerts work; what is ours begins with `webservice_`. Labels are bounded: never an object's name, never an error's text.

mod passes;
mod queue;
mod state;

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use webservice_ops::metrics::register;

pub use self::passes::Passes;
pub use self::queue::Queue;
pub use self::state::State;
use crate::certificates::CertificateMetrics;
use crate::decide::{Action, Decision};
use crate::engine::feeder::ProblemKind;
use crate::observe::Observation;

/// The value of the label `controller`, and of `name` for the queue.
const CONTROLLER: &str = "webservice";

/// What is watched, as a label.
#[derive(Clone, Copy, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub struct ByKind {
    kind: &'static str,
}

/// Of WebServices.
pub const WEB_SERVICE: ByKind = ByKind { kind: "WebService" };
/// Of their children.
pub const CONFIG_MAP: ByKind = ByKind { kind: "ConfigMap" };
const KINDS: [ByKind; 2] = [WEB_SERVICE, CONFIG_MAP];

impl ByKind {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.kind
    }

    /// The name of the resource, in the plural, as paths have it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        if self == WEB_SERVICE { webservice_api::constants::PLURAL } else { "configmaps" }
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByProblem {
    kind: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByRequest {
    code: String,
    method: String,
    host: Arc<str>,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByAction {
    action: &'static str,
}

/// From 1 ms to about 65 s.
fn latencies() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

/// See the [module](self).
pub struct Metrics {
    /// For the worker pool.
    pub passes: Passes,
    /// For the queue.
    pub queue: Queue,
    requests: Family<ByRequest, Counter>,
    watch_problems: Family<ByProblem, Counter>,
    decisions: Family<ByAction, Counter>,
    drift_corrections: Counter,
    /// For the listener of the metrics themselves.
    pub handshake_errors: Counter,
}

impl Metrics {
    /// All metrics, registered with `registry`.
    pub fn register(registry: &mut Registry, concurrency: usize) -> Arc<Self> {
        let decisions = Family::default();
        // Known from the start, so that a rate over them is right from the first one on.
        for action in Action::WORDS {
            drop(decisions.get_or_create(&ByAction { action }));
        }
        let watch_problems = Family::default();
        for ByKind { kind } in KINDS {
            for reason in ProblemKind::ALL.map(ProblemKind::as_str) {
                drop(watch_problems.get_or_create(&ByProblem { kind, reason }));
            }
        }
        Arc::new(Self {
            passes: Passes::register(registry, concurrency),
            queue: Queue::register(registry),
            requests: register(
                registry,
                "rest_client_requests",
                "Requests to the API server, answered or not",
                Family::default(),
            ),
            watch_problems: register(
                registry,
                "webservice_watch_problems",
                "Times that a watch failed; it is tried again",
                watch_problems,
            ),
            decisions: register(registry, "webservice_decisions", "Decisions of passes", decisions),
            drift_corrections: register(
                registry,
                "webservice_drift_corrections",
                "Children put back after somebody else changed them",
                Counter::default(),
            ),
            handshake_errors: register(
                registry,
                "webservice_metrics_tls_handshake_errors",
                "Connections to the metrics that did not complete a TLS handshake",
                Counter::default(),
            ),
        })
    }

    /// A request to `host` was answered with `code`, or not at all.
    pub fn requested(&self, host: &Arc<str>, method: &http::Method, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = ByRequest { code, method: method.to_string(), host: Arc::clone(host) };
        self.requests.get_or_create(&labels).inc();
    }

    /// A watch failed.
    pub fn watch_failed(&self, of: ByKind, problem: ProblemKind) {
        let labels = ByProblem { kind: of.kind, reason: problem.as_str() };
        self.watch_problems.get_or_create(&labels).inc();
    }

    /// A decision was made.
    pub fn decided(&self, seen: &Observation, decision: &Decision) {
        let action = decision.action.as_str();
        self.decisions.get_or_create(&ByAction { action }).inc();
        // The spec has been acted on before: so it was the child that changed.
        let is_drift = seen.owner.status.observed_generation == Some(seen.owner.generation);
        if is_drift && matches!(decision.action, Action::Update { .. } | Action::Replace) {
            self.drift_corrections.inc();
        }
    }
}

/// All metrics of the process as they are in the beginning, for the reference page.
#[must_use]
pub fn reference() -> Registry {
    let mut registry = webservice_ops::metrics::registry();
    let metrics = Metrics::register(&mut registry, 1);
    metrics.requested(&"HOST".into(), &http::Method::GET, None);
    registry.register_collector(Box::new(State(crate::vitals::Vitals::idle())));
    CertificateMetrics::register(&mut registry).complete();
    registry
}

#[cfg(test)]
mod tests {
    use webservice_ops::metrics::exposition;

    use super::*;

    #[test]
    fn what_stock_dashboards_show_has_the_names_that_they_know() {
        let text = exposition(&reference()).unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut names: Vec<_> = types.filter_map(|line| line.split(' ').next()).collect();
        names.retain(|name| !name.starts_with("webservice_") && !name.starts_with("process_"));
        names.sort_unstable();
        assert_eq!(
            names,
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

    #[test]
    fn stock_dashboards_find_the_labels_that_they_select_by() {
        let text = exposition(&reference()).unwrap();
        for series in [
            r#"workqueue_depth{name="webservice",controller="webservice"} 0"#,
            r#"controller_runtime_reconcile_total{controller="webservice",result="error"} 0"#,
            r#"controller_runtime_reconcile_errors_total{controller="webservice"} 0"#,
            r#"rest_client_requests_total{code="<error>",method="GET",host="HOST"} 1"#,
            r#"leader_election_master_status{name="webservice-controller"} 1"#,
        ] {
            assert!(text.contains(series), "{series} is missing in {text}");
        }
    }
}
