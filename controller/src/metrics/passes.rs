//! `controller_runtime_*`: passes, as controller-runtime counts them.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use webservice_ops::metrics::register;

use super::{CONTROLLER, latencies};
use crate::engine::{End, ObjectKey, PassObserver};

/// The values of the label `result`.
const RESULTS: [&str; 3] = [SUCCESS, REQUEUE_AFTER, ERROR];
const SUCCESS: &str = "success";
const REQUEUE_AFTER: &str = "requeue_after";
const ERROR: &str = "error";

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByResult {
    result: &'static str,
}

/// The metrics of passes.
#[derive(Clone)]
pub struct Passes {
    ended: Family<ByResult, Counter>,
    errors: Counter,
    panics: Counter,
    timeouts: Counter,
    seconds: Histogram,
    active: Gauge,
}

impl Passes {
    pub(super) fn register(registry: &mut Registry, concurrency: usize) -> Self {
        let registry = registry.sub_registry_with_label(("controller".into(), CONTROLLER.into()));
        let name = "controller_runtime_max_concurrent_reconciles";
        let most: Gauge = register(registry, name, "Most passes at a time", Gauge::default());
        most.set(i64::try_from(concurrency).unwrap_or(i64::MAX));
        let mut count = |name: &str, help| {
            register(registry, &format!("controller_runtime_reconcile_{name}"), help, Counter::default())
        };
        let errors = count("errors", "Passes that failed, in whichever way");
        let panics = count("panics", "Passes that panicked");
        let timeouts = count("timeouts", "Passes that overran their deadline");
        let ended = Family::default();
        // Known from the start, so that a rate over them is right from the first failure on.
        for result in RESULTS {
            drop(ended.get_or_create(&ByResult { result }));
        }
        Self {
            ended: register(registry, "controller_runtime_reconcile", "Passes, by how they ended", ended),
            errors,
            panics,
            timeouts,
            seconds: register(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Time per pass",
                latencies(),
            ),
            active: register(
                registry,
                "controller_runtime_active_workers",
                "Passes that are running",
                Gauge::default(),
            ),
        }
    }
}

impl PassObserver<ObjectKey> for Passes {
    fn started(&self, _key: &ObjectKey) {
        self.active.inc();
    }

    fn ended(&self, _key: &ObjectKey, end: End, took: Duration) {
        self.active.dec();
        self.seconds.observe(took.as_secs_f64());
        let result = match end {
            End::Done => SUCCESS,
            End::Requeued | End::AwaitingCache => REQUEUE_AFTER,
            End::Failed | End::Panicked | End::TimedOut => ERROR,
        };
        self.ended.get_or_create(&ByResult { result }).inc();
        if result == ERROR {
            self.errors.inc();
        }
        match end {
            End::Panicked => _ = self.panics.inc(),
            End::TimedOut => _ = self.timeouts.inc(),
            _ => {}
        }
    }
}
