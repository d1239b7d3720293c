//! C1 and C2: how often each object is written and read in its life.

use serde_json::json;

use super::super::samples::Samples;
use super::super::table::Row;
use super::super::thresholds::{self, Goal};
use super::per;
use crate::bed::{Controller, TestCluster, TestNamespace, fleet};

/// A life in five stages, each of so many WebServices at once, and a restart of the controller between them.
pub(super) async fn per_object(count: usize) -> Vec<Row> {
    let cluster = TestCluster::private_with_crd().await;
    let ns = cluster.namespace().await;
    let controller = ns.start_controller().await;
    let mut life = Life { count, rows: Vec::new(), reads: 0 };
    let all = || fleet::names(0..count);

    let born = async { drop(fleet::backlog(&ns, 0..count).await) };
    let events = life.stage(&ns, &controller, thresholds::C1_CREATE, born).await;
    life.rows.push(Row::absolute(thresholds::C1_EVENTS, one(per(events, count))));
    let change = fleet::merge(ns.webservices(), all(), json!({"spec": {"replicas": 3}}));
    life.stage(&ns, &controller, thresholds::C1_CHANGE, change).await;
    let label = fleet::merge(ns.webservices(), all(), json!({"metadata": {"labels": {"team": "shop"}}}));
    life.stage(&ns, &controller, thresholds::C1_NOTHING, label).await;
    let children = all().map(|name| format!("{name}-desired"));
    let drift = fleet::merge(ns.config_maps(), children, json!({"data": {"image": "nginx:1.26"}}));
    life.stage(&ns, &controller, thresholds::C1_DRIFT, drift).await;

    let mark = ns.mark().await;
    controller.process().stop().await;
    let controller = ns.start_controller().await;
    let restarted = ns.writes_since(&mark, &controller).await.len();
    life.rows.push(Row::absolute(thresholds::C1_RESTART, one(per(restarted, count))));

    life.stage(&ns, &controller, thresholds::C1_DELETE, fleet::delete(ns.webservices(), all())).await;
    life.rows.push(Row::absolute(thresholds::C2, one(per(life.reads, count))));
    life.rows
}

struct Life {
    count: usize,
    rows: Vec<Row>,
    reads: usize,
}

impl Life {
    /// Counts what the controller does about `happening`. Gives the number of events that it sent.
    async fn stage(
        &mut self,
        ns: &TestNamespace,
        controller: &Controller,
        goal: Goal,
        happening: impl Future<Output = ()>,
    ) -> usize {
        let mark = ns.mark().await;
        happening.await;
        controller.settle(ns).await;
        let calls = ns.calls_since(&mark).await;
        self.rows.push(Row::absolute(goal, one(per(calls.writes().len(), self.count))));
        self.reads += calls.reads().len();
        // The fence has one of its own.
        calls.events().saturating_sub(1)
    }
}

fn one(value: f64) -> Samples {
    [value].into_iter().collect()
}
