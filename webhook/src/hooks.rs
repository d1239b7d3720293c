//! Faults that tests ask for. They are compiled with the feature `test-hooks` only, which no shipped binary has.

use std::sync::OnceLock;
use std::time::Duration;

static DELAY: OnceLock<Duration> = OnceLock::new();

/// Makes every decision of this process take so much longer. What was said first counts.
pub fn delay_decisions(by: Duration) {
    _ = DELAY.set(by);
}

/// Waits as long as a decision is to be delayed.
pub(crate) async fn before_decision() {
    if let Some(delay) = DELAY.get() {
        tokio::time::sleep(*delay).await;
    }
}
