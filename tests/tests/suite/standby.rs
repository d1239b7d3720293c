//! Two controllers and one Lease: one leads, the other stands by and takes over.

use webservice_tests::bed::{Call, Controller, LEASE_DURATION, TestNamespace, eventually, webservice};

/// A namespace with a leader and a standby.
async fn with_standby() -> (TestNamespace, Controller, Controller) {
    let ns = TestNamespace::with_election().await;
    let leader = ns.controller().electing().start().await;
    leader.await_leading().await;
    let mark = ns.mark().await;
    let standby = ns.controller().electing().start().await;
    eventually("the standby knows who leads", async || {
        let calls = ns.calls_since(&mark).await;
        let has_looked = |call: &Call| (&*call.resource, &*call.verb, call.code) == ("leases", "get", 200);
        if calls.all().iter().any(has_looked) { Ok(()) } else { Err(format!("{calls:?}")) }
    })
    .await;
    (ns, leader, standby)
}

#[tokio::test]
async fn a_standby_follows_what_comes_and_goes_and_queues_nothing() {
    let (ns, _leader, standby) = with_standby().await;
    for number in 0..20 {
        let name = format!("w-{number}");
        ns.webservices().create(webservice(&name)).await;
        ns.await_ready(&name).await;
        if number % 2 == 0 {
            ns.webservices().delete(&name).await;
            ns.webservices().await_gone(&name).await;
        }
        assert_eq!(standby.metrics().await.count("workqueue_depth", &[]), 0, "after {name}");
    }
    eventually("the standby has followed", async || {
        match standby.metrics().await.count("webservice_cache_objects", &[]) {
            20 => Ok(()),
            others => Err(format!("{others} objects in its caches")),
        }
    })
    .await;
    let metrics = standby.metrics().await;
    assert_eq!((metrics.count("workqueue_depth", &[]), metrics.count("workqueue_adds_total", &[])), (0, 0));
}

#[tokio::test]
async fn a_leader_that_is_told_to_stop_hands_over_at_once() {
    let (ns, leader, standby) = with_standby().await;
    let last = ns.last_renewal().await;
    leader.process().stop().await;
    standby.await_leading().await;
    let unled = ns.time_to_lead(last).await;
    assert!(
        unled < LEASE_DURATION,
        "it took over {unled:?} after the last renewal, as if nobody had handed over"
    );
    ns.webservices().create(webservice("after")).await;
    ns.await_ready("after").await;
}

#[tokio::test]
async fn a_leader_that_is_killed_is_succeeded_when_its_lease_has_run_out() {
    let (ns, leader, standby) = with_standby().await;
    leader.process().kill().await;
    let last = ns.last_renewal().await;
    ns.webservices().create(webservice("after")).await;
    ns.await_ready("after").await;
    standby.await_leading().await;
    let unled = ns.time_to_lead(last).await;
    assert!(unled >= LEASE_DURATION, "it took over {unled:?} after the last renewal");
}
