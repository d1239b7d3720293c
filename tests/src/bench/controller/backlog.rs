//! C3, C4 and C6: many WebServices wait when the controller starts.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::super::machine;
use super::super::rounds::Rounds;
use super::super::samples::Samples;
use super::super::table::Row;
use super::super::thresholds;
use super::{is_report, per, seconds};
use crate::bed::fleet::{self, RawLoop, nth};
use crate::bed::{Call, TestCluster, TestNamespace};

/// What the controller does at a time by default, and so the raw loop.
const CONCURRENCY: usize = 10;
/// In which time all must be Ready: fifty a second.
const PATIENCE: Duration = Duration::from_mins(4);

#[derive(Clone, Copy)]
enum Arm {
    Controller,
    RawLoop,
}

/// C3 and C4: how long it takes until all are Ready, and what CPU time of the controller.
pub(super) async fn beside_raw_loop(rounds: Rounds, count: usize) -> Result<Vec<Row>> {
    let cluster = TestCluster::private_with_crd().await;
    let cpu = RefCell::new(Vec::new());
    let took = rounds.run([Arm::Controller, Arm::RawLoop], async |arm| {
        let ns = cluster.namespace().await;
        match arm {
            Arm::Controller => {
                let (took, used) = controller(&ns, count).await?;
                cpu.borrow_mut().push(used.as_secs_f64() / per(count, 1_000));
                Ok(took)
            }
            Arm::RawLoop => raw_loop(&ns, count).await,
        }
    });
    let took = took.await?;
    // As of the times, the first is not counted.
    let cpu: Samples = cpu.into_inner().into_iter().skip(1).collect();
    Ok(vec![Row::beside(thresholds::C3, took), Row::absolute(thresholds::C4, cpu)])
}

/// From exec to the last status, in seconds; and the CPU time until then.
async fn controller(ns: &TestNamespace, count: usize) -> Result<(f64, Duration)> {
    ns.account().await;
    fleet::backlog(ns, 0..count).await;
    let mut calls = ns.calls_from(&ns.mark().await);
    let began = Timestamp::now();
    let controller = ns.controller().launch().await;
    let reports = calls.await_calls(PATIENCE, "all are Ready", count, is_report).await;
    let cpu = machine::cpu_time(controller.process().id())?;
    controller.process().stop().await;
    Ok((seconds(began, last(&reports)?), cpu))
}

/// From the first request to the last status, in seconds.
async fn raw_loop(ns: &TestNamespace, count: usize) -> Result<f64> {
    let raw_loop = RawLoop::of(&ns.account().await.kubeconfig).await;
    let owners = fleet::backlog(ns, 0..count).await;
    let mut calls = ns.calls_from(&ns.mark().await);
    let began = Timestamp::now();
    raw_loop.run(owners, CONCURRENCY).await;
    let reports = calls.await_calls(PATIENCE, "all are Ready", count, is_report).await;
    Ok(seconds(began, last(&reports)?))
}

/// C6: how long a WebService waits that is created while a backlog is worked off, as part of that time.
pub(super) async fn newcomer((count, times): (usize, usize)) -> Vec<Row> {
    let cluster = TestCluster::private_with_crd().await;
    let mut waits = Vec::new();
    for _ in 0..times {
        let ns = cluster.namespace().await;
        fleet::backlog(&ns, 0..count).await;
        let mut calls = ns.calls_from(&ns.mark().await);
        let controller = ns.controller().launch().await;
        let mut reports = calls.await_calls(PATIENCE, "work begins", 1, is_report).await;

        let (asked, began) = (Timestamp::now(), Instant::now());
        fleet::backlog(&ns, count..count + 1).await;
        let left = count + 1 - reports.len();
        reports.extend(calls.await_calls(PATIENCE, "all are Ready", left, is_report).await);
        let drained = began.elapsed().as_secs_f64();

        let newcomer = nth(count);
        let served =
            reports.iter().filter(|call| call.name == newcomer).map(|call| seconds(asked, call.answered));
        waits.extend(served.map(|wait| wait / drained));
        controller.process().stop().await;
    }
    vec![Row::absolute(thresholds::C6, waits.into_iter().collect())]
}

fn last(calls: &[Call]) -> Result<Timestamp> {
    calls.iter().map(|call| call.answered).max().context("nothing was written")
}
