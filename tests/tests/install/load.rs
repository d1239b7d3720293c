//! WebServices that are created all the time, while something happens to the webhook.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio::time::timeout;
use webservice_tests::bed::{Objects, Site, webservice};
use webservice_tests::prove::{Findings, Load, Tally, full};

/// Creations per second. The short form leaves room for a machine that is four times slower.
fn rate() -> u32 {
    full(20, 50)
}

/// One in so many is stored, and so is work for the controller. The others go through admission alike and are not: ten thousand
/// stored ones would make it a test of the machine.
const STORED: u64 = 10;
/// As long as kubectl waits, by far: who creates something expects an answer.
const DEADLINE: Duration = Duration::from_mins(1);

/// The values by which no write goes past the webhook. In the short form a call may take long: the machine may be building, too.
pub(crate) fn strict() -> String {
    let seconds = full(30, 5);
    let of = |webhook: &str| {
        format!("webhook.{webhook}.failurePolicy=Fail,webhook.{webhook}.timeoutSeconds={seconds}")
    };
    format!("--set={},{}", of("mutating"), of("validating"))
}

/// Creations at a steady rate.
pub(crate) struct Creations {
    load: Load,
    tally: Arc<Tally>,
    started: Instant,
}

impl Creations {
    pub(crate) fn start(site: &Site) -> Self {
        // Goes on where others have ended: no name is used twice.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (mut load, tally) = (Load::new(), Arc::new(Tally::default()));
        let (webservices, counted) = (site.webservices(), Arc::clone(&tally));
        load.at_rate(rate(), move || {
            create(webservices.clone(), Arc::clone(&counted), COUNT.fetch_add(1, Ordering::Relaxed))
        });
        Self { load, tally, started: Instant::now() }
    }

    /// Those that failed so far.
    pub(crate) fn failures(&self) -> u64 {
        self.tally.failures()
    }

    /// Ends them, of which none may have failed.
    pub(crate) async fn finish(self, findings: &mut Findings) {
        let tally = self.end(findings).await;
        findings.none_failed("creations", &tally);
    }

    /// Ends them; they may have been refused for so many seconds.
    pub(crate) async fn finish_after_refusals(self, findings: &mut Findings, seconds: f64) {
        let tally = self.end(findings).await;
        let refused = u32::try_from(tally.failures()).unwrap();
        let lasted = f64::from(refused) / f64::from(rate());
        findings.at_most("seconds of refusals", tally.calls(), lasted, seconds);
    }

    async fn end(self, findings: &mut Findings) -> Arc<Tally> {
        let Self { load, tally, started } = self;
        let elapsed = started.elapsed();
        load.finish().await.unwrap();
        // Far below the rate, since a busy machine is no fault of the webhook's.
        let reached = tally.goodput(elapsed);
        findings.at_least("creations per second", tally.calls(), reached, f64::from(rate()) / 4.0);
        tally
    }
}

async fn create(webservices: Objects, tally: Arc<Tally>, number: u64) {
    let object = webservice(&format!("load-{number}"));
    let created = async {
        if number.is_multiple_of(STORED) {
            webservices.try_create(object).await
        } else {
            webservices.try_accept(object).await
        }
    };
    let answer = timeout(DEADLINE, created).await.context("no answer in time");
    tally.count(answer.and_then(|answer| answer.map_err(|status| anyhow!(status.message))));
}
