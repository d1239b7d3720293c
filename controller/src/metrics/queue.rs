//! `workqueue_*`: the queue, as client-go counts it. What grows with time by itself is in [`State`](super::State).

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use webservice_ops::metrics::register;

use super::{CONTROLLER, latencies};
use crate::engine::QueueMetrics;

/// The metrics of the queue.
#[derive(Clone)]
pub struct Queue {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
}

impl Queue {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let labels = ["name", "controller"].map(|label| (label.into(), CONTROLLER.into()));
        let registry = registry.sub_registry_with_labels(labels.into_iter());
        Self {
            depth: register(
                registry,
                "workqueue_depth",
                "Keys that are ready for a worker",
                Gauge::default(),
            ),
            adds: register(registry, "workqueue_adds", "Keys added", Counter::default()),
            retries: register(registry, "workqueue_retries", "Keys added with a delay", Counter::default()),
            waited: register(
                registry,
                "workqueue_queue_duration_seconds",
                "Time that a key was ready before a worker took it",
                latencies(),
            ),
            worked: register(
                registry,
                "workqueue_work_duration_seconds",
                "Time that a worker had a key",
                latencies(),
            ),
        }
    }
}

impl QueueMetrics for Queue {
    fn depth(&self, ready: usize) {
        self.depth.set(i64::try_from(ready).unwrap_or(i64::MAX));
    }

    fn added(&self) {
        self.adds.inc();
    }

    fn waited(&self, ready_for: Duration) {
        self.waited.observe(ready_for.as_secs_f64());
    }

    fn worked(&self, took: Duration) {
        self.worked.observe(took.as_secs_f64());
    }

    fn retried(&self) {
        self.retries.inc();
    }
}
