//! Requests that fail, each in its own way: what is tried again when, and that nothing is done twice.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{
    ProxiedNamespace, SHORTEST_BACK_OFF, WebServiceBuilder, assert_ever_longer, condition, eventually,
    version, webservice,
};
use webservice_tests::fault::{Answer, ApiRequest, Fault, On};

/// As long as a request may take, and then some.
const DEADLINE_OF_A_REQUEST: Duration = Duration::from_secs(4);
/// The time that is left to passes when the process is told to stop.
const GRACE: Duration = Duration::from_secs(30);

/// One that needs no write for its finalizer.
fn complete(name: &str) -> WebServiceBuilder {
    webservice(name).finalizers([FINALIZER])
}

fn creation_of(name: &str) -> On {
    On::verb("create").resource("configmaps").name(&format!("{name}-desired"))
}

/// Creates a WebService whose child's first creation meets `fault`, waits until it is Ready, and gives what was written for it.
async fn created_despite(ns: &ProxiedNamespace, name: &str, fault: Fault) -> Vec<String> {
    let mark = ns.mark().await;
    let met = ns.proxy.inject(fault, creation_of(name).times(1));
    ns.webservices().create(complete(name)).await;
    ns.await_ready(name).await;
    assert_eq!(met.hits(), 1, "{name} did not meet its fault");
    ns.writes_since(&mark, &ns.controller).await
}

fn creation_writes(name: &str) -> [String; 2] {
    [format!("create configmaps {name}-desired"), format!("patch webservices/status {name}")]
}

async fn errors(ns: &ProxiedNamespace) -> u64 {
    ns.controller.metrics().await.count("controller_runtime_reconcile_errors_total", &[])
}

#[tokio::test]
async fn a_request_that_fails_and_was_not_carried_out_is_made_again_and_nothing_else() {
    let ns = ProxiedNamespace::start().await;
    let faults = [
        ("internal", Fault::refused(500, "InternalError")),
        ("gateway", Fault::answered(Answer::text(502, "bad gateway"))),
        ("unavailable", Fault::refused(503, "ServiceUnavailable")),
        ("timeout", Fault::refused(504, "Timeout")),
        ("reset", Fault::lost_request()),
    ];
    for (failed, (name, fault)) in (1..).zip(faults) {
        assert_eq!(created_despite(&ns, name, fault).await, creation_writes(name));
        assert_eq!(errors(&ns).await, failed, "{name}");
    }
    let requests = ns.controller.metrics().await;
    for code in ["500", "502", "503", "504", "<error>"] {
        assert_eq!(requests.count("rest_client_requests_total", &[("code", code)]), 1, "{code}");
    }
}

#[tokio::test]
async fn a_conflict_is_looked_at_again_at_once_and_is_no_failure() {
    let ns = ProxiedNamespace::start().await;
    let writes = created_despite(&ns, "checkout", Fault::refused(409, "Conflict")).await;
    assert_eq!(writes, creation_writes("checkout"));
    assert_eq!(errors(&ns).await, 0);
}

#[tokio::test]
async fn a_creation_that_was_carried_out_though_its_answer_is_lost_is_not_done_twice() {
    let ns = ProxiedNamespace::start().await;
    let faults = [
        ("timeout", Fault::denied(504, "Timeout")),
        ("internal", Fault::denied(500, "InternalError")),
        ("reset", Fault::lost_reply()),
        ("cut", Fault::Truncate),
        ("silence", Fault::hang_after_commit()),
    ];
    for (name, fault) in faults {
        let mut writes = created_despite(&ns, name, fault).await;
        // The repetition finds the child there already, unless its event was faster.
        writes.retain(|write| *write != format!("create configmaps {name}-desired (409)"));
        assert_eq!(writes, creation_writes(name));
    }
}

/// Lets the first `verb` on `resource` be carried out and its answer be lost, and gives what `change` leads to in all.
async fn writes_despite_a_lost_reply(
    ns: &ProxiedNamespace,
    (verb, resource): (&'static str, &'static str),
    change: impl AsyncFnOnce(&ProxiedNamespace),
) -> Vec<String> {
    let mark = ns.mark().await;
    let on = On::verb(verb).resource(resource).name("checkout").name("checkout-desired").times(1);
    let lost = ns.proxy.inject(Fault::lost_reply(), on);
    change(ns).await;
    lost.await_hits(1).await;
    ns.writes_since(&mark, &ns.controller).await
}

/// Whether `writes` are the `expected` ones, with one of them once more at most, done or refused.
fn is_with_one_repetition(writes: &[String], expected: &[&str]) -> bool {
    let bare = |write: &String| write.split(" (").next().unwrap_or_default().to_owned();
    let mut rest: Vec<_> = writes.iter().map(bare).collect();
    let are_all_there = expected.iter().all(|wanted| {
        let position = rest.iter().position(|write| write == wanted);
        position.map(|position| rest.remove(position)).is_some()
    });
    are_all_there && rest.len() <= 1 && rest.iter().all(|again| expected.contains(&again.as_str()))
}

/// A deletion in the course of which the answer to the write `lost` is.
async fn assert_deleted_despite_a_lost_reply(ns: &ProxiedNamespace, lost: (&'static str, &'static str)) {
    let writes = writes_despite_a_lost_reply(ns, lost, async |ns| {
        ns.webservices().delete("checkout").await;
        ns.webservices().await_gone("checkout").await;
    });
    let writes = writes.await;
    let expected = ["delete configmaps checkout-desired", "patch webservices checkout"];
    assert!(is_with_one_repetition(&writes, &expected), "{lost:?}: {writes:?}");
}

#[tokio::test]
async fn no_write_of_any_kind_is_repeated_more_than_once_when_its_answer_is_lost() {
    const CHILD: &str = "patch configmaps checkout-desired";
    const STATUS: &str = "patch webservices/status checkout";
    let ns = ProxiedNamespace::start().await;
    ns.webservices().create(complete("checkout")).await;
    ns.await_ready("checkout").await;

    for (replicas, lost) in [(2, ("patch", "configmaps")), (3, ("patch", "webservices/status"))] {
        let writes = writes_despite_a_lost_reply(&ns, lost, async |ns| {
            ns.webservices().merge("checkout", json!({"spec": {"replicas": replicas}})).await;
            ns.await_ready("checkout").await;
        });
        let writes = writes.await;
        assert!(is_with_one_repetition(&writes, &[CHILD, STATUS]), "{lost:?}: {writes:?}");
    }
    assert_deleted_despite_a_lost_reply(&ns, ("delete", "configmaps")).await;
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_has_nothing_left_to_do() {
    let ns = ProxiedNamespace::start().await;
    ns.webservices().create(complete("checkout")).await;
    ns.await_ready("checkout").await;
    assert_deleted_despite_a_lost_reply(&ns, ("patch", "webservices")).await;
}

/// Whether a request is the creation of that WebService's child.
fn creates_child_of(name: &str) -> impl Fn(&ApiRequest) -> bool {
    let child = format!("create configmaps {name}-desired");
    move |request| request.to_string() == child
}

#[tokio::test]
async fn a_server_that_asks_for_patience_is_left_alone_for_as_long_as_it_says() {
    let ns = ProxiedNamespace::start().await;
    let answers = [
        ("in-a-status", 2, Answer::status(429, "TooManyRequests")),
        ("in-the-header", 3, Answer::text(429, "Too many requests, please try again later.")),
        ("while-it-starts", 2, Answer::status(503, "ServiceUnavailable")),
    ];
    for (name, seconds, answer) in answers {
        created_despite(&ns, name, Fault::answered(answer.retry_after(seconds))).await;
        let pause = ns.pauses(creates_child_of(name))[0];
        assert!(pause >= Duration::from_secs(seconds.into()), "{name}: tried again after {pause:?}");
    }
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up_and_holds_nobody_else() {
    let ns = ProxiedNamespace::start().await;
    let hangs = ns.proxy.inject(Fault::hang(), creation_of("hung"));
    let asked = tokio::time::Instant::now();
    ns.webservices().create(complete("hung")).await;
    hangs.await_hits(1).await;

    ns.webservices().create(complete("other")).await;
    ns.await_ready("other").await;
    hangs.await_hits(2).await;
    hangs.lift();
    ns.await_ready("hung").await;
    let [hung, other] = ["hung", "other"].map(|name| ns.seen(creates_child_of(name)));
    assert!(hung[1] - asked >= DEADLINE_OF_A_REQUEST, "given up after {:?}", hung[1] - asked);
    // Were others held up, they would come when one is given up, and so just before it is tried again.
    let while_it_hangs = DEADLINE_OF_A_REQUEST.mul_f64(0.95);
    let hangs = |tried: &tokio::time::Instant| *tried < other[0] && other[0] - *tried < while_it_hangs;
    assert!(hung.iter().any(hangs), "another one was held up: {:?} and {hung:?}", other[0]);
}

#[tokio::test]
async fn a_failure_that_stays_is_told_of_and_tried_ever_more_slowly_until_it_heals() {
    let ns = ProxiedNamespace::start().await;
    let broken = ns.proxy.inject(Fault::refused(500, "InternalError"), creation_of("checkout"));
    ns.webservices().create(complete("checkout")).await;
    let is_told = |object: &Value| condition(object, "Reconciling")["reason"] == "ApiError";
    let told = ns.webservices().await_that("checkout", "says what fails", is_told).await;
    assert_eq!(condition(&told, "Ready")["status"], "Unknown", "Ready stays as it was at first");
    broken.await_hits(11).await;
    assert_ever_longer(&ns.pauses(creates_child_of("checkout")), SHORTEST_BACK_OFF);
    broken.lift();
    ns.await_ready("checkout").await;
}

#[tokio::test]
async fn a_condition_that_says_what_fails_is_not_written_again_with_every_try() {
    let ns = ProxiedNamespace::start().await;
    let broken = ns.proxy.inject(Fault::refused(500, "InternalError"), creation_of("checkout"));
    ns.webservices().create(complete("checkout")).await;
    broken.await_hits(3).await;
    let is_told = |object: &Value| condition(object, "Reconciling")["reason"] == "ApiError";
    let told = ns.webservices().await_that("checkout", "says what fails", is_told).await;
    broken.await_hits(9).await;
    assert_eq!(version(&ns.webservices().get("checkout").await), version(&told));
}

#[tokio::test]
async fn a_controller_is_stopped_in_time_whatever_its_server_does() {
    for fault in [Fault::refused(503, "ServiceUnavailable"), Fault::hang()] {
        let ns = ProxiedNamespace::start().await;
        let met = ns.proxy.inject(fault.clone(), On::calls());
        ns.webservices().create(complete("checkout")).await;
        met.await_hits(1).await;
        let asked = Instant::now();
        ns.controller.process().stop().await;
        assert!(asked.elapsed() < GRACE, "{fault:?}: it took {:?}", asked.elapsed());
        assert_eq!(ns.controller.process().errors(), Vec::<Value>::new());
    }
}

#[tokio::test]
async fn a_resource_that_is_not_served_for_a_moment_is_no_object_that_is_gone() {
    let ns = ProxiedNamespace::start().await;
    let unserved = Fault::answered(Answer::text(404, "404 page not found"));
    let met = ns.proxy.inject(unserved, On::verb("patch").resource("webservices/status").times(2));
    ns.webservices().create(complete("checkout")).await;
    met.await_hits(2).await;
    ns.await_ready("checkout").await;
    eventually("the failures are counted", async || match errors(&ns).await {
        0 | 1 => Err("not all"),
        _ => Ok(()),
    })
    .await;
}
