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

/// How long a decision takes. All is slower in the short form, since other tests run beside it.
fn delay() -> Duration {
    full(Duration::from_secs(1), Duration::from_millis(400))
}

fn timeout_seconds() -> i32 {
    full(7, 3)
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_its_capacity_the_webhook_defers_what_it_can_and_refuses_the_rest_in_time() {
    let length = Duration::from_secs(5);
    let capacity = capacity(length).await;
    println!("capacity: {capacity:.1} creations per second");
    let mut findings = Findings::of("overload");

    let (slightly, heavily) = full((1.1, 5.0), (1.3, 10.0));
    let slight = offer(capacity * slightly, length).await;
    findings.none_failed(&format!("creations at {slightly}x capacity"), &slight.created);

    let heavy = offer(capacity * heavily, length).await;
    let (calls, goodput) = (heavy.created.calls(), heavy.created.goodput(heavy.elapsed));
    // A short load is half over before its first creations are done, and a machine that runs other tests is late by itself.
    let (least, late, margin) = full((0.2, 0.3, 10.0), (0.9, 0.0, 1.0));
    findings.at_least(
        &format!("goodput at {heavily}x capacity / capacity"),
        calls,
        goodput / capacity,
        least,
    );
    findings.at_most("share of them that ran into the timeout", calls, heavy.late(), late);
    let limit = f64::from(2 * timeout_seconds()) + margin;
    findings.at_most("longest of them in seconds", calls, heavy.longest.as_secs_f64(), limit);
    findings.conclude();
}

/// A webhook that decides slowly, in a namespace and with clients of its own.
async fn slowed() -> (TestNamespace, Webhook) {
    let ns = TestNamespace::new().await;
    let flags =
        [format!("--decision-delay={}ms", delay().as_millis()), format!("--max-in-flight={IN_FLIGHT}")];
    let webhook =
        ns.webhook().program("webservice-webhook-slow").flags(flags).timeout_seconds(timeout_seconds());
    let webhook = webhook.start().await;
    (ns, webhook)
}

/// Creations per second while exactly as many are under way as the webhook takes.
async fn capacity(length: Duration) -> f64 {
    let (ns, _webhook) = slowed().await;
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
    /// Those for which the API server waited until the webhook's timeout.
    late: u32,
    longest: Duration,
    elapsed: Duration,
}

impl Offered {
    /// The share of creations that were late.
    fn late(&self) -> f64 {
        f64::from(self.late) / f64::from(u32::try_from(self.created.calls()).unwrap_or(u32::MAX))
    }
}

/// So many creations per second, however many are under way.
async fn offer(rate: f64, length: Duration) -> Offered {
    let (ns, webhook) = slowed().await;
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
        offered.late += u32::from(is_late);
        offered.created.count(answer);
        offered.longest = offered.longest.max(took);
    }
    offered.elapsed = began.elapsed();
    assert!(webhook.process().errors().is_empty(), "{}", webhook.process().output());
    offered
}
