//! Waiting for something to come true, never for time to pass.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// What takes longer will not happen any more, on a machine however busy.
pub const DEADLINE: Duration = Duration::from_mins(2);
const INTERVAL: Duration = Duration::from_millis(25);

/// Asks again and again until the answer is a value, at most for [`DEADLINE`]. An answer that is none says what was seen.
pub async fn eventually<T, S: Display>(what: &str, probe: impl AsyncFnMut() -> Result<T, S>) -> T {
    within(DEADLINE, what, probe).await
}

/// The same with a deadline of the caller's. Panics with what was seen last.
pub async fn within<T, S: Display>(
    deadline: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let started = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if started.elapsed() >= deadline => {
                panic!("{what}: not within {deadline:?}; last seen: {seen}")
            }
            Err(_) => sleep(INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_taken_as_soon_as_there_is_one() {
        let mut asked = 0;
        let probe = async || {
            asked += 1;
            if asked == 3 { Ok("ready") } else { Err("not yet") }
        };
        assert_eq!(eventually("it is ready", probe).await, "ready");
        assert_eq!(asked, 3);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "it is ready: not within 1s; last seen: still migrating")]
    async fn after_the_deadline_it_is_said_what_was_seen_last() {
        within::<(), _>(Duration::from_secs(1), "it is ready", async || Err("still migrating")).await;
    }
}
