//! Replicas come and go, as in a rolling update, while the API server calls.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use webservice_tests::prove::{Findings, Load, Mount, Replica, Service, Tally, Trust, full};

use super::{authority, leaf};

const CALLERS: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);
/// A fifth of what is shipped, so that a hundred stops take minutes. What counts is that it is longer than the time in which
/// the caller may learn of a stop.
const LAME_DUCK: &str = "--shutdown-lame-duck=1s";
const SLOWEST_NEWS: Duration = Duration::from_millis(800);
/// Lame duck, grace and last call together, and a busy machine.
const LONGEST_STOP: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_replicas_are_stopped_under_load() -> Result<()> {
    let stops = full(4, 100);
    let ca = authority()?;
    let mount = Mount::of(&leaf(&ca)?)?;
    let start = async || Replica::start(&mount, &[LAME_DUCK]).await;
    let service = Arc::new(Service::new(Trust::in_bundle(ca.certificate_pem())?));
    let mut replicas = [start().await?, start().await?];
    for replica in &replicas {
        service.add(replica.address());
    }
    let stopping = Arc::new(Mutex::new((SocketAddr::from(([0; 4], 0)), Instant::now())));
    let (calls, late) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    let mut load = Load::new();
    for _ in 0..CALLERS {
        let all = (Arc::clone(&service), Arc::clone(&stopping), Arc::clone(&calls), Arc::clone(&late));
        load.add(PAUSE, move || {
            let (service, stopping, calls, late) = all.clone();
            async move {
                let answer = service.call().await;
                let (leaving, since) = *stopping.lock().unwrap();
                let answer =
                    answer.with_context(|| format!("{:?} after {leaving} was told to stop", since.elapsed()));
                if calls.count(answer) == Some(leaving) {
                    late.count(Ok(()));
                }
            }
        });
    }

    let mut findings = Findings::of("stops under load");
    let (ends, mut longest) = (Tally::default(), Duration::ZERO);
    for stop in 1..=stops {
        let next = start().await?;
        service.add(next.address());
        let old = std::mem::replace(&mut replicas[stop % 2], next);
        let began = Instant::now();
        *stopping.lock().unwrap() = (old.address(), began);
        old.terminate();
        // Endpoints are followed with a delay, and until then new connections are made to who is leaving.
        tokio::time::sleep(SLOWEST_NEWS.mul_f64(fastrand::f64())).await;
        service.remove(old.address());
        ends.count(old.ended().await);
        longest = longest.max(began.elapsed());
        findings.progress(stop, stops, &calls);
    }
    load.finish().await?;
    findings.none_failed("calls", &calls);
    findings.none_failed("those answered by who was told to stop", &late);
    findings.none_failed("stops, each with exit code 0", &ends);
    findings.at_most(
        "longest stop in seconds",
        ends.calls(),
        longest.as_secs_f64(),
        LONGEST_STOP.as_secs_f64(),
    );
    findings.conclude();
    Ok(())
}
