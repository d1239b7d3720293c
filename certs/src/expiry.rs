//! When a certificate is renewed: a pure decision over its life and the present instant.

use jiff::{SignedDuration, Timestamp};

/// How far a certificate's life begins in the past, so that a peer whose clock is behind accepts it at once.
pub const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The life of a certificate: both bounds belong to it, to the second (RFC 5280, section 4.1.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First instant at which the certificate is valid.
    pub not_before: Timestamp,
    /// Last instant at which the certificate is valid.
    pub not_after: Timestamp,
}

impl Validity {
    /// A life that ends `lifetime` after `now`, cut to the second, and began [`CLOCK_SKEW`] before it.
    #[must_use]
    pub fn lasting(lifetime: SignedDuration, now: Timestamp) -> Self {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self {
            not_before: now.saturating_sub(CLOCK_SKEW).unwrap_or(Timestamp::MIN),
            not_after: now.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
        }
    }

    /// Whether the life is over at `now`.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.as_second() > self.not_after.as_second()
    }
}

/// What is to be done with a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It has more than a third of its life before it.
    Keep,
    /// It is still valid, and a successor is due.
    Renew,
    /// It is refused by everybody: a successor is overdue.
    Expired,
}

/// Renews when two thirds of the life have passed, as cert-manager does by default: the last third is the time in
/// which a failing renewal can be noticed and repaired. A life without length, or that ends before it begins, is expired.
#[must_use]
pub fn decide(validity: Validity, now: Timestamp) -> Decision {
    if validity.is_over(now) || validity.not_after <= validity.not_before {
        Decision::Expired
    } else if now >= renew_at(validity) {
        Decision::Renew
    } else {
        Decision::Keep
    }
}

/// The instant from which [`decide`] answers [`Decision::Renew`].
#[must_use]
pub fn renew_at(validity: Validity) -> Timestamp {
    let life = validity.not_before.duration_until(validity.not_after);
    validity.not_after.saturating_sub(life / 3).unwrap_or(validity.not_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUED: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn ninety_days() -> Validity {
        Validity { not_before: ISSUED, not_after: ISSUED + SignedDuration::from_hours(24 * 90) }
    }

    fn after_days(days: i64) -> Timestamp {
        ISSUED + SignedDuration::from_hours(24 * days)
    }

    #[test]
    fn a_certificate_is_kept_for_two_thirds_of_its_life() {
        assert_eq!(decide(ninety_days(), after_days(0)), Decision::Keep);
        assert_eq!(decide(ninety_days(), after_days(60) - SignedDuration::from_secs(1)), Decision::Keep);
    }

    #[test]
    fn a_certificate_is_renewed_in_the_last_third_of_its_life() {
        assert_eq!(decide(ninety_days(), after_days(60)), Decision::Renew);
        assert_eq!(
            decide(ninety_days(), after_days(90)),
            Decision::Renew,
            "the last second still belongs to it"
        );
    }

    #[test]
    fn a_certificate_past_its_last_second_is_expired() {
        assert_eq!(decide(ninety_days(), after_days(90) + SignedDuration::from_secs(1)), Decision::Expired);
    }

    #[test]
    fn a_certificate_from_the_future_is_kept() {
        assert_eq!(decide(ninety_days(), after_days(-1)), Decision::Keep);
    }

    #[test]
    fn a_life_that_ends_before_it_begins_is_expired() {
        let inverted = Validity { not_before: after_days(2), not_after: after_days(1) };
        assert_eq!(decide(inverted, after_days(0)), Decision::Expired);
    }

    #[test]
    fn a_life_without_bounds_overflows_nothing() {
        let eternal = Validity { not_before: Timestamp::MIN, not_after: Timestamp::MAX };
        assert_eq!(decide(eternal, ISSUED), Decision::Keep);
        assert_eq!(Validity::lasting(SignedDuration::MAX, ISSUED).not_after, Timestamp::MAX);
    }

    #[test]
    fn a_lasting_life_began_before_a_slow_clock_shows_now() {
        let validity = Validity::lasting(SignedDuration::from_hours(1), ISSUED);
        assert_eq!(validity.not_before, ISSUED - CLOCK_SKEW);
        assert_eq!(validity.not_after, ISSUED + SignedDuration::from_hours(1));
    }
}
