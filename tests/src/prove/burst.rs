//! Many people who create WebServices at once.

use std::time::Instant;

use anyhow::anyhow;
use futures::future::join_all;

use super::caller::CALL_TIMEOUT;
use super::findings::Findings;
use super::full;
use super::load::Tally;
use crate::bed::{Objects, webservice};
use crate::bench::samples::Samples;

/// `workers` who each create so many WebServices, one after the other, none of which is stored. What came of it, and how long each
/// took in seconds.
pub async fn burst(webservices: &Objects, workers: usize, creations: usize) -> (Tally, Samples) {
    let tally = Tally::default();
    let took = join_all((0..workers).map(async |worker| {
        let mut took = Vec::new();
        for number in 0..creations {
            let sent = Instant::now();
            let answer = webservices.try_accept(webservice(&format!("w-{worker}-{number}"))).await;
            tally.count(answer.map_err(|status| anyhow!(status.message)));
            took.push(sent.elapsed().as_secs_f64());
        }
        took
    }));
    let took = took.await.concat().into_iter().collect();
    (tally, took)
}

/// Finds whether none of a burst failed or took longer than a caller of the webhook waits. The few calls of a short form have no p99: one
/// pause of the machine meets twenty of them.
pub fn passed_in_time(findings: &mut Findings, tally: &Tally, took: &Samples) {
    findings.none_failed("creations", tally);
    let quantile = full(0.5, 0.99);
    let what = format!("p{:.0} in seconds, both hooks", quantile * 100.0);
    findings.at_most(&what, tally.calls(), took.quantile(quantile), CALL_TIMEOUT.as_secs_f64());
}
