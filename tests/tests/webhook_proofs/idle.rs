//! The API server keeps unused connections for 90 s, and uses them again without asking.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use webservice_tests::prove::{Connection, Findings, Mount, Replica, Tally, Trust, full};

use super::{authority, leaf};

#[tokio::test]
async fn no_call_fails_after_a_connection_was_not_used_for_a_while() -> Result<()> {
    let longest = full(3, 95);
    let ca = authority()?;
    let replica = Replica::start(&Mount::of(&leaf(&ca)?)?, &[]).await?;
    let trust = Trust::in_bundle(ca.certificate_pem())?;
    let tally = Arc::new(Tally::default());
    let gaps = (1..=longest).map(|gap| call_twice(&replica, &trust, Duration::from_secs(gap), &tally));
    join_all(gaps).await;

    let mut findings = Findings::of("calls after a gap");
    findings.none_failed(&format!("calls after gaps of 1 to {longest} s"), &tally);
    findings.conclude();
    Ok(())
}

/// Over one connection, with a gap between the two calls.
async fn call_twice(replica: &Replica, trust: &Trust, gap: Duration, tally: &Tally) {
    let Some(mut connection) = tally.count(Connection::open(replica.address(), trust).await) else { return };
    tally.count(connection.call().await);
    // The one thing that waits for time to pass, since that is what it is about.
    tokio::time::sleep(gap).await;
    tally.count(connection.call().await);
}
