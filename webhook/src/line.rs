//! Reviews beyond those that may be decided at a time wait in line.
//!
//! A burst is worth waiting for: the API server comes back once a second to who refuses it with a `Retry-After`, while the
//! line moves every moment. But waiting must end while the caller still listens. Who has waited for long is refused for good,
//! since there is no time left for another try: the API server would sleep over its own deadline, and the person would be
//! told of a timeout. Only who finds the line full is told to come back.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::refusal::Refusal;

/// Longest wait. The shortest `timeoutSeconds` that makes sense is 3, and some time must be left for the decision.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many times as many as are decided at a time may be there in all.
const LENGTH: usize = 256;

/// The line, shared by both webhooks.
#[derive(Debug)]
pub(crate) struct Line {
    places: Semaphore,
    turns: Semaphore,
}

/// The right to decide, while it is held.
#[derive(Debug)]
pub(crate) struct Turn<'l> {
    _place: SemaphorePermit<'l>,
    _turn: SemaphorePermit<'l>,
}

impl Line {
    /// For so many decisions at a time.
    pub(crate) fn new(max_in_flight: usize) -> Self {
        let places = max_in_flight.saturating_mul(LENGTH).min(Semaphore::MAX_PERMITS);
        Self { places: Semaphore::new(places), turns: Semaphore::new(max_in_flight) }
    }

    /// Waits for a turn: who came first decides first.
    pub(crate) async fn turn(&self) -> Result<Turn<'_>, Refusal> {
        let place = self.places.try_acquire().map_err(|_| Refusal::Busy)?;
        let turn = match self.turns.try_acquire() {
            Ok(turn) => turn,
            Err(_) => tokio::time::timeout(PATIENCE, self.turns.acquire())
                .await
                .map_err(|_| Refusal::Overloaded)?
                .map_err(|_| Refusal::Busy)?,
        };
        Ok(Turn { _place: place, _turn: turn })
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_review_beyond_the_limit_waits_until_another_is_done() {
        let line = Line::new(1);
        let first = line.turn().await.unwrap();
        let (second, ()) = tokio::join!(line.turn(), async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(first);
        });
        second.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_for_long_is_refused_for_good() {
        let line = Line::new(1);
        let _first = line.turn().await.unwrap();
        let began = Instant::now();
        assert!(matches!(line.turn().await.unwrap_err(), Refusal::Overloaded));
        assert_eq!(began.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_the_line_full_is_told_at_once_to_come_back() {
        let line = Line::new(1);
        let _first = line.turn().await.unwrap();
        let mut waiting = Box::pin(join_all((1..LENGTH).map(|_| line.turn())));
        futures::poll!(&mut waiting).is_pending().then_some(()).unwrap();
        let began = Instant::now();
        assert!(matches!(line.turn().await.unwrap_err(), Refusal::Busy));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_leaves_the_line() {
        let line = Line::new(1);
        let first = line.turn().await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(1), line.turn()).await;
        assert!(waiting.is_err());
        drop(first);
        assert_eq!(line.places.available_permits(), LENGTH);
        line.turn().await.unwrap();
    }
}
