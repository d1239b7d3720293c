//! Many WebServices: all that were created while the controller was away, at once.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::fleet::PATIENCE;
use webservice_tests::bed::{CONCURRENCY, PAGE, TestNamespace, fleet, name, webservice, within};
use webservice_tests::fault::{Fault, FaultProxy, On};
use webservice_tests::prove::full;

#[tokio::test]
async fn a_backlog_takes_two_writes_each_and_a_restart_none() {
    let count = full(200, 10_000);
    let ns = TestNamespace::new().await;
    fleet::backlog(&ns, 0..count).await;

    let mark = ns.mark().await;
    let controller = ns.start_controller().await;
    controller.await_objects_ready(count).await;
    let calls = ns.calls_since(&mark).await;
    let (writes, again) = (calls.writes().len(), controller.given_up());
    let expected = 2 * count..=2 * count + again;
    assert!(expected.contains(&writes), "{writes} writes: a child and a status each, and no try in vain");
    let most = calls.most_writes_at_a_time();
    // The log may show the end of an answer after the worker that got it has sent its next request.
    assert!(most <= 2 * CONCURRENCY + again, "{most} writes at a time");

    let mark = ns.mark().await;
    // It is about what happens while nothing does.
    sleep_until(Instant::now() + full(Duration::from_secs(2), Duration::from_mins(2))).await;
    controller.process().stop().await;
    let controller = ns.start_controller().await;
    assert_eq!(ns.writes_since(&mark, &controller).await, Vec::<String>::new());
    let passes = controller.metrics().await.count("controller_runtime_reconcile_total", &[]);
    let expected = count as u64..=count as u64 * 11 / 10;
    assert!(expected.contains(&passes), "{passes} passes over {count} objects at a restart");
}

/// How many of the fleet there are.
async fn left(ns: &TestNamespace) -> usize {
    ns.webservices().list().await.iter().filter(|it| name(it).starts_with("w-")).count()
}

#[tokio::test]
async fn a_mass_deletion_takes_two_writes_each_and_who_is_created_meanwhile_waits_for_nobody() {
    let count = full(200, 5_000);
    let ns = TestNamespace::new().await;
    fleet::at_rest(&ns, 0..count).await;
    let controller = ns.start_controller().await;
    controller.settle(&ns).await;

    let mark = ns.mark().await;
    let newcomer = async {
        ns.webservices().create(webservice("newcomer").finalizers([FINALIZER])).await;
        ns.await_ready("newcomer").await;
        left(&ns).await
    };
    let (left_meanwhile, ()) =
        tokio::join!(newcomer, fleet::delete(ns.webservices(), fleet::names(0..count)));
    assert!(left_meanwhile > 0, "it was served when all others were gone");
    within(PATIENCE, "all are gone", async || match left(&ns).await {
        0 => Ok(()),
        left => Err(format!("{left} are left")),
    })
    .await;
    let writes = ns.writes_since(&mark, &controller).await.len();
    let expected = 2 * count + 2..=2 * count + 2 + controller.given_up();
    assert!(expected.contains(&writes), "{writes} writes, and {expected:?} are expected");
}

#[tokio::test]
async fn a_list_that_takes_long_is_made_once() {
    let count = full(PAGE + 100, 10_000);
    let ns = TestNamespace::new().await;
    fleet::at_rest(&ns, 0..count).await;
    let proxy = FaultProxy::start(ns.cluster()).await.unwrap();
    let _slow = proxy.inject(Fault::Slow(Duration::from_millis(20)), On::verb("list"));

    let mark = ns.mark().await;
    let controller = ns.controller().through(&proxy).await.launch().await;
    controller.await_readyz_within(PATIENCE).await;
    assert_eq!(ns.writes_since(&mark, &controller).await, Vec::<String>::new());
    for resource in ["webservices", "configmaps"] {
        let lists = proxy
            .seen()
            .into_iter()
            .filter(|seen| (seen.request.verb, &*seen.request.resource) == ("list", resource));
        assert_eq!(lists.count(), count.div_ceil(PAGE), "pages of {resource}");
    }
}
