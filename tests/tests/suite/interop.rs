//! Our leader election beside client-go's: both take part in the same election, and each keeps to its turn.

use webservice_tests::bed::{Controller, LEASE_DURATION, LeaseCandidate, TestNamespace, eventually};

async fn leads(controller: &Controller) -> bool {
    controller.metrics().await.count("leader_election_master_status", &[]) == 1
}

/// Waits until the Lease was renewed twice more.
async fn await_renewals(ns: &TestNamespace) {
    let mut seen = Vec::new();
    eventually("the Lease is renewed", async || {
        let renewed = ns.last_renewal().await;
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

    let last = ns.last_renewal().await;
    theirs.process().stop().await;
    ours_now.await_leading().await;
    let unled = ns.time_to_lead(last).await;
    assert!(
        unled < LEASE_DURATION,
        "we took over {unled:?} after the last renewal, as if nobody had handed over"
    );

    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_following().await;
    await_renewals(&ns).await;
    assert!(!theirs.has_led(), "client-go leads beside us");

    let last = ns.last_renewal().await;
    ours_now.process().stop().await;
    theirs.await_leading().await;
    let unled = ns.time_to_lead(last).await;
    assert!(unled < LEASE_DURATION, "client-go took over {unled:?} after the last renewal, as if nobody had");
}

#[tokio::test]
async fn a_leader_on_client_go_that_is_killed_is_succeeded_when_its_lease_has_run_out() {
    let ns = TestNamespace::with_election().await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_leading().await;
    let ours_now = ns.controller().electing().start().await;
    await_renewals(&ns).await;

    theirs.process().kill().await;
    let last = ns.last_renewal().await;
    ours_now.await_leading().await;

    let unled = ns.time_to_lead(last).await;
    assert!(unled >= LEASE_DURATION, "we took over {unled:?} after the last renewal");
}

#[tokio::test]
async fn one_of_ours_that_is_killed_is_succeeded_by_client_go() {
    let ns = TestNamespace::with_election().await;
    let ours_now = ns.controller().electing().start().await;
    ours_now.await_leading().await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_following().await;

    ours_now.process().kill().await;
    let last = ns.last_renewal().await;
    theirs.await_leading().await;

    let unled = ns.time_to_lead(last).await;
    assert!(unled >= LEASE_DURATION, "client-go took over {unled:?} after the last renewal");
}
