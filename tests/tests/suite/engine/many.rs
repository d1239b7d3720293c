//! Many WebServices: all that were created while the controller was away, at once.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use webservice_tests::bed::{Call, TestNamespace, fleet};
use webservice_tests::prove::full;

/// As the controller's flag has it by default.
const CONCURRENCY: usize = 10;
const PATIENCE: Duration = Duration::from_mins(5);

#[tokio::test]
async fn a_backlog_takes_two_writes_each_and_a_restart_none() {
    let count = full(200, 10_000);
    let ns = TestNamespace::new().await;
    let user = ns.account().await.user.clone();
    fleet::backlog(&ns, 0..count).await;

    let mark = ns.mark().await;
    let controller = ns.start_controller().await;
    let is_report =
        |call: &Call| call.resource == "webservices/status" && call.user == user && call.has_written();
    ns.calls_from(&mark).await_calls(PATIENCE, "all are Ready", count, is_report).await;
    let calls = ns.calls_since(&mark).await;
    assert_eq!(calls.writes().len(), 2 * count, "a child and a status each, and no try in vain");
    let most = calls.most_writes_at_a_time();
    // The log may show the end of an answer after the worker that got it has sent its next request.
    assert!(most <= 2 * CONCURRENCY, "{most} writes at a time");

    let mark = ns.mark().await;
    // It is about what happens while nothing does.
    sleep_until(Instant::now() + full(Duration::from_secs(2), Duration::from_mins(2))).await;
    controller.process().stop().await;
    let controller = ns.start_controller().await;
    assert_eq!(ns.writes_since(&mark, &controller).await, Vec::<String>::new());
}
