//! More is asked of the webhook than it can decide: what it cannot take now it takes a moment later, what it cannot take at
//! all is told so in time, and it never does less than it could.

use std::time::Duration;

use anyhow::anyhow;
use futures::future::join_all;
use tokio::time::{Instant, sleep_until};
use webservice_tests::bed::{TestNamespace, Webhook, webservice};
use webservice_tests::prove::{Findings, Tally, full};

/// Reviews at a time. Both hooks together make two of a creation.
const IN_FLIGHT: usize = 8;
const DELAY: Duration = Duration::from_millis(200);
const TIMEOUT_SECONDS: i32 = 3;
/// What may pass, beside the timeouts of both hooks, on a busy machine.
const MARGIN: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn beyond_its_capacity_the_webhook_defers_what_it_can_and_refuses_the_rest_in_time() {
    let length = Duration::from_secs(full(2, 5));
    let (ns, webhook) = slowed().await;
    let capacity = capacity(&ns, length).await;
    println!("capacity: {capacity:.1} creations per second");
    let mut findings = Findings::of("overload");

    let slight = offer(&ns, capacity * 1.3, length).await;
    findings.none_failed("creations at 1.3x capacity", &slight.created);

    let heavy = offer(&ns, capacity * 10.0, length).await;
    let (calls, goodput) = (heavy.created.calls(), heavy.created.goodput(heavy.elapsed));
    findings.at_least("goodput at 10x capacity / capacity", calls, goodput / capacity, 0.9);
    findings.none_failed("creations at 10x capacity, done or refused in time", &heavy.in_time);
    let limit = Duration::from_secs(2 * u64::from(TIMEOUT_SECONDS.unsigned_abs())) + MARGIN;
    findings.at_most("longest of them in seconds", calls, heavy.longest.as_secs_f64(), limit.as_secs_f64());
    assert!(webhook.process().errors().is_empty(), "{}", webhook.process().output());
    findings.conclude();
}

async fn slowed() -> (TestNamespace, Webhook) {
    let ns = TestNamespace::new().await;
    let flags = [format!("--decision-delay={}ms", DELAY.as_millis()), format!("--max-in-flight={IN_FLIGHT}")];
    let webhook =
        ns.webhook().program("webservice-webhook-slow").flags(flags).timeout_seconds(TIMEOUT_SECONDS);
    let webhook = webhook.start().await;
    (ns, webhook)
}

/// Creations per second while exactly as many are under way as the webhook takes.
async fn capacity(ns: &TestNamespace, length: Duration) -> f64 {
    let began = Instant::now();
    let workers = (0..IN_FLIGHT).map(async |worker| {
        let mut created = 0;
        while began.elapsed() < length {
            ns.webservices().accepts(webservice(&format!("w-{worker}-{created}"))).await;
            created += 1;
        }
        created
    });
    let created: u32 = join_all(workers).await.into_iter().sum();
    f64::from(created) / began.elapsed().as_secs_f64()
}

/// How creations went.
#[derive(Default)]
struct Offered {
    created: Tally,
    /// Those that were created or refused before the API server gave up on the webhook.
    in_time: Tally,
    longest: Duration,
    elapsed: Duration,
}

/// So many creations per second, however many are under way.
async fn offer(ns: &TestNamespace, rate: f64, length: Duration) -> Offered {
    let (began, interval) = (Instant::now(), Duration::from_secs_f64(rate.recip()));
    let dues = std::iter::successors(Some(began), |due| Some(*due + interval));
    let creations = dues.take_while(|due| *due < began + length).enumerate().map(async |(number, due)| {
        sleep_until(due).await;
        let answer = ns.webservices().try_accept(webservice(&format!("o-{number}"))).await;
        (answer.map_err(|status| anyhow!(status.message)), due.elapsed())
    });
    let mut offered = Offered::default();
    for (answer, took) in join_all(creations).await {
        let is_late = answer.as_ref().is_err_and(|refusal| refusal.to_string().contains("deadline exceeded"));
        offered.in_time.count(if is_late { Err(anyhow!("{answer:?}")) } else { Ok(()) });
        offered.created.count(answer);
        offered.longest = offered.longest.max(took);
    }
    offered.elapsed = began.elapsed();
    offered
}
