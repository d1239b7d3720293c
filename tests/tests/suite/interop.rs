//! Our leader election beside client-go's: both take part in the same election, and each keeps to its turn.

use std::time::{Duration, Instant};

use webservice_tests::bed::{Controller, LEASE_DURATION, LeaseCandidate, TestNamespace, eventually};

/// client-go looks every two seconds and a bit; a busy machine needs some more.
const TAKE_OVER: Duration = Duration::from_secs(6);

async fn leads(controller: &Controller) -> bool {
    controller.metrics().await.count("leader_election_master_status", &[]) == 1
}

/// Waits until the Lease was renewed twice more.
async fn await_renewals(ns: &TestNamespace) {
    let mut seen = Vec::new();
    eventually("the Lease is renewed", async || {
        let lease = ns.leases().get("webservice-controller").await;
        let renewed = lease["spec"]["renewTime"].clone();
        if !seen.contains(&renewed) {
            seen.push(renewed);
        }
        if seen.len() > 2 { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[tokio::test]
async fn we_and_client_go_take_turns() {
    let ns = TestNamespace::with_election().await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_leading().await;
    let ours_now = ns.controller().electing().start().await;
    await_renewals(&ns).await;
    assert!(!leads(&ours_now).await, "we lead beside client-go");

    let released = Instant::now();
    theirs.process().stop().await;
    ours_now.await_leading().await;
    assert!(released.elapsed() < TAKE_OVER, "we needed {:?}", released.elapsed());

    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_following().await;
    await_renewals(&ns).await;
    assert!(!theirs.has_led(), "client-go leads beside us");

    let released = Instant::now();
    ours_now.process().stop().await;
    theirs.await_leading().await;
    assert!(released.elapsed() < TAKE_OVER, "client-go needed {:?}", released.elapsed());
}

#[tokio::test]
async fn a_leader_on_client_go_that_is_killed_is_succeeded_when_its_lease_has_run_out() {
    let ns = TestNamespace::with_election().await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_leading().await;
    let ours_now = ns.controller().electing().start().await;
    await_renewals(&ns).await;

    let killed = Instant::now();
    theirs.process().kill().await;
    ours_now.await_leading().await;

    // The last renewal is two seconds old at most.
    let (taken, shortest) = (killed.elapsed(), LEASE_DURATION.saturating_sub(Duration::from_secs(3)));
    assert!(taken > shortest && taken < LEASE_DURATION + TAKE_OVER, "it took {taken:?}");
}

#[tokio::test]
async fn one_of_ours_that_is_killed_is_succeeded_by_client_go() {
    let ns = TestNamespace::with_election().await;
    let ours_now = ns.controller().electing().start().await;
    ours_now.await_leading().await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_following().await;

    let killed = Instant::now();
    ours_now.process().kill().await;
    theirs.await_leading().await;
    assert!(killed.elapsed() < LEASE_DURATION + TAKE_OVER, "it took {:?}", killed.elapsed());
}
