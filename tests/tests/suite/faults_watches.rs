//! Watches that fail, each in its own way: what happened meanwhile is made up for, and nobody is asked in a tight loop.

use std::time::Duration;

use serde_json::json;
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{ProxiedNamespace, assert_ever_longer, eventually, webservice, within};
use webservice_tests::fault::{Answer, Fault, On};
use webservice_tests::prove::is_full;

/// A watch that the server does not end is given up after this time.
const SILENCE: Duration = Duration::from_secs(55);

/// From half a second on, doubled each time, less up to a half by chance.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

fn first_watch() -> On {
    On::verb("watch").resource("webservices").times(1)
}

/// The number of lists of WebServices when a controller has got over `fault` on its first watch of them, and the kind of
/// problem was counted.
async fn lists_despite(fault: Fault, kind: &str) -> usize {
    let (ns, met) = ProxiedNamespace::start_under(|proxy| proxy.inject(fault, first_watch())).await;
    met.await_hits(1).await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.controller.await_readyz().await;
    let problems = ns.controller.metrics().await;
    assert_eq!(problems.count("webservice_watch_problems_total", &[("reason", kind)]), 1, "{kind}");
    ns.asked("list", "webservices")
}

#[tokio::test]
async fn a_version_that_has_expired_leads_to_one_full_list() {
    assert_eq!(lists_despite(Fault::refused(410, "Expired"), "expired").await, 2);
    assert_eq!(lists_despite(Fault::answered(Answer::error_event(410, "Expired")), "expired").await, 2);
}

#[tokio::test]
async fn a_watch_that_fails_otherwise_is_taken_up_where_it_was() {
    let faults = [
        (Fault::answered(Answer::error_event(500, "InternalError")), "server"),
        (Fault::refused(503, "ServiceUnavailable"), "server"),
        (Fault::refused(429, "TooManyRequests"), "throttled"),
        (Fault::refused(403, "Forbidden"), "forbidden"),
        (Fault::lost_request(), "connection"),
    ];
    for (fault, kind) in faults {
        assert_eq!(lists_despite(fault, kind).await, 1, "{kind}");
    }
}

#[tokio::test]
async fn a_watch_that_breaks_off_within_an_event_loses_nothing() {
    let (ns, met) = ProxiedNamespace::start_under(|proxy| proxy.inject(Fault::Truncate, first_watch())).await;
    ns.controller.await_readyz().await;
    ns.webservices().create(webservice("checkout")).await;
    met.await_hits(1).await;
    ns.await_ready("checkout").await;
    assert_eq!(ns.asked("list", "webservices"), 1);
}

#[tokio::test]
async fn versions_that_always_expire_are_asked_for_ever_more_slowly() {
    let expired = Fault::answered(Answer::error_event(410, "Expired"));
    let (ns, met) = ProxiedNamespace::start_under(|proxy| {
        proxy.inject(expired, On::verb("watch").resource("webservices"))
    })
    .await;
    met.await_hits(1).await;
    ns.webservices().create(webservice("checkout")).await;
    met.await_hits(5).await;
    let lists = ns.pauses(|request| (request.verb, &*request.resource) == ("list", "webservices"));
    assert_ever_longer(&lists, SHORTEST_PAUSE);
    // The lists themselves tell what happened.
    ns.await_ready("checkout").await;
}

#[tokio::test]
async fn a_list_that_fails_keeps_the_controller_from_being_ready_until_it_works() {
    let (ns, met) = ProxiedNamespace::start_under(|proxy| {
        proxy.inject(Fault::refused(500, "InternalError"), On::verb("list"))
    })
    .await;
    met.await_hits(2).await;
    eventually("it says why it is not ready", async || match ns.controller.probe("/readyz?verbose").await {
        (503, text) if text.contains("InternalError") => Ok(()),
        (code, text) => Err(format!("{code} {text}")),
    })
    .await;
    met.lift();
    ns.controller.await_readyz().await;
}

#[tokio::test]
async fn a_slow_watch_delays_and_loses_nothing() {
    let slow = Fault::Slow(Duration::from_millis(300));
    let (ns, _) = ProxiedNamespace::start_under(|proxy| proxy.inject(slow, On::verb("watch"))).await;
    ns.controller.await_readyz().await;
    for number in 0..5 {
        ns.webservices().create(webservice(&format!("w-{number}")).finalizers([FINALIZER])).await;
    }
    for number in 0..5 {
        ns.await_ready(&format!("w-{number}")).await;
    }
    assert_eq!(ns.controller.failed_passes().await, 0);
}

/// What is in force while a watch is silent may be old: nothing wrong is written because of it, and all is made up for when
/// the events come. In the long form they never come, and the silence is noticed.
#[tokio::test]
async fn a_watch_that_falls_silent_is_noticed_or_made_up_for() {
    let (ns, silent) =
        ProxiedNamespace::start_under(|proxy| proxy.inject(Fault::Silence, On::verb("watch").times(2))).await;
    ns.controller.await_readyz().await;
    silent.await_hits(2).await;
    ns.webservices().create(webservice("checkout")).await;
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 3}})).await;
    if !is_full() {
        silent.lift();
    }
    within(2 * SILENCE, "the child is there", async || {
        ns.config_maps().find("checkout-desired").await.ok_or("no child")
    })
    .await;
    ns.await_ready("checkout").await;
}
