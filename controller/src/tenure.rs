//! Whether a controller leads, as somebody sees it who does not compete for the Lease.
//!
//! By the election's own rule: a holder is believed in until its Lease has been seen unchanged for its duration. The times in the
//! Lease come from another clock and are never compared with ours.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

/// What was seen of one Lease.
#[derive(Clone, Debug, Default)]
pub struct Tenure {
    /// What it was, and since when.
    seen: Option<(LeaseSpec, Duration)>,
    has_changed: bool,
}

/// What can be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody leads.
    Free,
    /// This one does: it was seen to renew.
    Led(String),
    /// Somebody is written in, who may be dead.
    Unclear {
        /// Who.
        holder: String,
        /// When a holder that has not renewed by then is dead.
        for_another: Duration,
    },
}

impl Tenure {
    /// What can be said after another look at the Lease, at `now` of some clock that never goes back.
    pub fn saw(&mut self, lease: Option<&Lease>, now: Duration) -> Verdict {
        let spec = lease.and_then(|lease| lease.spec.clone());
        let holder = spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        let Some(spec) = spec.filter(|_| !holder.is_empty()) else {
            *self = Self::default();
            return Verdict::Free;
        };
        let since = match &self.seen {
            Some((before, since)) if *before == spec => *since,
            before => {
                self.has_changed = before.is_some();
                now
            }
        };
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let ends = since + Duration::from_secs(seconds.unwrap_or_default());
        self.seen = Some((spec, since));
        match ends.checked_sub(now) {
            None | Some(Duration::ZERO) => Verdict::Free,
            Some(_) if self.has_changed => Verdict::Led(holder),
            Some(for_another) => Verdict::Unclear { holder, for_another },
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use k8s_openapi::jiff::{SignedDuration, Timestamp};

    use super::*;

    fn lease(holder: &str, renewed: i64) -> Lease {
        let renewed = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(renewed);
        let spec = LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(renewed)),
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn unclear(for_another: u64) -> Verdict {
        Verdict::Unclear { holder: "a".into(), for_another: secs(for_another) }
    }

    #[test]
    fn without_a_lease_or_a_holder_nobody_leads() {
        assert_eq!(Tenure::default().saw(None, secs(1)), Verdict::Free);
        assert_eq!(Tenure::default().saw(Some(&lease("", 5)), secs(1)), Verdict::Free);
        assert_eq!(Tenure::default().saw(Some(&Lease::default()), secs(1)), Verdict::Free);
    }

    #[test]
    fn a_holder_that_renews_leads_whatever_its_clock_shows() {
        let mut tenure = Tenure::default();
        assert_eq!(tenure.saw(Some(&lease("a", -1_000_000)), secs(100)), unclear(15));
        assert_eq!(tenure.saw(Some(&lease("a", -999_995)), secs(105)), Verdict::Led("a".into()));
    }

    #[test]
    fn a_holder_that_does_not_renew_for_the_duration_is_dead() {
        let mut tenure = Tenure::default();
        for (now, verdict) in [(100, unclear(15)), (114, unclear(1)), (115, Verdict::Free)] {
            assert_eq!(tenure.saw(Some(&lease("a", 5)), secs(now)), verdict);
        }
    }

    #[test]
    fn a_leader_that_falls_silent_is_dead_after_the_duration() {
        let mut tenure = Tenure::default();
        tenure.saw(Some(&lease("a", 5)), secs(0));
        assert_eq!(tenure.saw(Some(&lease("a", 10)), secs(5)), Verdict::Led("a".into()));
        assert_eq!(tenure.saw(Some(&lease("a", 10)), secs(19)), Verdict::Led("a".into()));
        assert_eq!(tenure.saw(Some(&lease("a", 10)), secs(20)), Verdict::Free);
    }

    #[test]
    fn a_successor_leads() {
        let mut tenure = Tenure::default();
        tenure.saw(Some(&lease("a", 5)), secs(0));
        assert_eq!(tenure.saw(Some(&lease("b", 6)), secs(1)), Verdict::Led("b".into()));
    }
}
