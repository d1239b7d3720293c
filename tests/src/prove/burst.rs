//! Many people who create WebServices at once.

use std::time::Instant;

use anyhow::anyhow;
use futures::future::join_all;

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
