//! Strangers can reach the port too. What they do costs them, and nobody else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::join_all;
use webservice_tests::bench::rounds::Rounds;
use webservice_tests::bench::samples::Samples;
use webservice_tests::prove::{Connection, Findings, Mount, Replica, Storm, Tally, Trust, full};

use super::{authority, leaf};

const CALLERS: usize = 4;
/// Between two calls of one caller.
const PAUSE: Duration = Duration::from_millis(5);

/// What is compared, and the most that it may be in the storm, in units of the one when it is quiet. The short form makes too
/// few calls for a p99, and the storm does not slow down with the machine.
fn limit() -> (f64, f64) {
    full((0.5, 20.0), (0.99, 2.0))
}

#[derive(Clone, Copy, PartialEq)]
enum Weather {
    Quiet,
    Storm,
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_in_time_while_strangers_storm_the_port() -> Result<()> {
    let (quantile, limit) = limit();
    let (rounds, length) = full((3, Duration::from_secs(1)), (8, Duration::from_secs(5)));
    let ca = authority()?;
    let replica = Replica::start(&Mount::of(&leaf(&ca)?)?, &[]).await?;
    let trust = Arc::new(Trust::in_bundle(ca.certificate_pem())?);
    let tally = Tally::default();
    let measure = async |weather: &Weather| {
        let storm = match weather {
            Weather::Quiet => None,
            Weather::Storm => Some(Storm::at(replica.address(), Arc::clone(&trust)).await?),
        };
        let callers = (0..CALLERS).map(|_| call(&replica, &trust, length, &tally));
        let took: Samples = join_all(callers).await.concat().into_iter().collect();
        drop(storm);
        println!(
            "{}: p{:.0} {:.2} ms",
            if *weather == Weather::Quiet { "quiet" } else { "storm" },
            quantile * 100.0,
            took.quantile(quantile)
        );
        Ok(took.quantile(quantile))
    };
    let [quiet, storm] = Rounds::new(rounds).run([Weather::Quiet, Weather::Storm], measure).await?;

    let mut findings = Findings::of("500 idle, 200 slow and 200 senseless connections");
    findings.none_failed("calls meanwhile and in between", &tally);
    let ratio = storm.ratios(&quiet).median();
    let what = format!("p{:.0} in the storm / when quiet", quantile * 100.0);
    findings.at_most(&what, tally.calls(), ratio, limit);
    findings.conclude();
    Ok(())
}

/// One caller's calls, in milliseconds.
async fn call(replica: &Replica, trust: &Trust, length: Duration, tally: &Tally) -> Vec<f64> {
    let began = Instant::now();
    let mut took = Vec::new();
    let Some(mut connection) = tally.count(Connection::open(replica.address(), trust).await) else {
        return took;
    };
    while began.elapsed() < length {
        let sent = Instant::now();
        if tally.count(connection.call().await).is_none() {
            break;
        }
        took.push(sent.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    took
}
