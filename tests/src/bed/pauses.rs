//! Whether somebody who fails gives others ever more time.

use std::time::Duration;

/// The shortest first pause of a key that fails: from 5 ms on, doubled each time, less up to a half by chance; and one try may come
/// early.
pub const SHORTEST_BACK_OFF: Duration = Duration::from_micros(1250);

/// Asserts that each pause lasts at least twice as long as the one before it had to, the first one at least `shortest`.
///
/// # Panics
///
/// Where one is shorter.
pub fn assert_ever_longer(pauses: &[Duration], shortest: Duration) {
    let limits = (0..).map(|doubled| shortest * 2_u32.pow(doubled));
    for (pause, limit) in pauses.iter().zip(limits) {
        assert!(*pause >= limit, "{pause:?} is less than {limit:?}: {pauses:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_double_at_least_are_fine() {
        assert_ever_longer(&[1, 2, 5, 8].map(Duration::from_secs), Duration::from_secs(1));
    }

    #[test]
    #[should_panic(expected = "3s is less than 4s: [1s, 2s, 3s]")]
    fn a_pause_that_is_too_short_is_named() {
        assert_ever_longer(&[1, 2, 3].map(Duration::from_secs), Duration::from_secs(1));
    }
}
