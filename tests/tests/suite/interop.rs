//! Our leader election beside client-go's: both take part in the same election, and each keeps to its turn.

use std::time::{Duration, Instant};

use serde_json::Value;
use webservice_api::rbac;
use webservice_tests::bed::{Controller, LeaseCandidate, TestNamespace, eventually};

/// As the Lease says: what a leader that fell silent still has.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// client-go looks every two seconds and a bit; a busy machine needs some more.
const TAKE_OVER: Duration = Duration::from_secs(6);

async fn namespace() -> TestNamespace {
    let ns = TestNamespace::new().await;
    ns.grant([rbac::controller(), rbac::leader_election()].concat()).await;
    ns
}

async fn ours(ns: &TestNamespace) -> Controller {
    let namespace = format!("--leader-election-namespace={}", ns.name());
    ns.controller().flags(["--leader-elect", &namespace]).start().await
}

async fn await_leading(controller: &Controller) {
    controller.process().await_line("leads", |line: &Value| line["message"] == "leading").await;
}

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
    let ns = namespace().await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_leading().await;
    let ours_now = ours(&ns).await;
    await_renewals(&ns).await;
    assert!(!leads(&ours_now).await, "we lead beside client-go");

    let released = Instant::now();
    theirs.process().stop().await;
    await_leading(&ours_now).await;
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
    let ns = namespace().await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_leading().await;
    let ours_now = ours(&ns).await;
    await_renewals(&ns).await;

    let killed = Instant::now();
    theirs.process().kill().await;
    await_leading(&ours_now).await;

    // The last renewal is two seconds old at most.
    let (taken, shortest) = (killed.elapsed(), LEASE_DURATION.saturating_sub(Duration::from_secs(3)));
    assert!(taken > shortest && taken < LEASE_DURATION + TAKE_OVER, "it took {taken:?}");
}

#[tokio::test]
async fn one_of_ours_that_is_killed_is_succeeded_by_client_go() {
    let ns = namespace().await;
    let ours_now = ours(&ns).await;
    await_leading(&ours_now).await;
    let theirs = LeaseCandidate::start(&ns).await;
    theirs.await_following().await;

    let killed = Instant::now();
    ours_now.process().kill().await;
    theirs.await_leading().await;
    assert!(killed.elapsed() < LEASE_DURATION + TAKE_OVER, "it took {:?}", killed.elapsed());
}
