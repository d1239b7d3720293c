//! The protocol without its waiting: what was seen and written, what to do next. Time is passed in.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

/// What all candidates for one Lease agree on, and who this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The Lease's name.
    pub name: String,
    /// Who we are; must be unique among all processes that ever compete.
    pub identity: String,
    /// How long a holder that is not seen to renew is believed in.
    pub lease_duration: Duration,
    /// How long a holder believes in itself after its last renewal; shorter than `lease_duration`, for the
    /// requests that it has begun by then must have ended when another acquires.
    pub renew_deadline: Duration,
    /// How often a healthy holder renews.
    pub renew_period: Duration,
    /// How soon a failed request is repeated.
    pub retry_period: Duration,
}

impl Settings {
    /// client-go's durations, but for a healthy holder's renewals: every 5 s instead of 2 s.
    #[must_use]
    pub fn new(name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            renew_period: Duration::from_secs(5),
            retry_period: Duration::from_secs(2),
        }
    }

    fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}

/// What a candidate or holder does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read the Lease.
    Look,
    /// Create this Lease.
    Create(Lease),
    /// Replace the Lease by this one, if it still has this one's version.
    Replace(Lease),
    /// Nothing until then, or until the Lease changes.
    WaitUntil(Duration),
    /// The term is over.
    Lost(Lost),
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The last renewal is too long ago.
    #[error("failed to renew the lease in time")]
    NotRenewed,
    /// Somebody wrote another holder into the Lease.
    #[error("the lease was given to {0:?}")]
    TakenBy(String),
}

/// A candidate's view of the election. All times are those of one [`Clock`](super::Clock).
#[derive(Clone, Debug)]
pub struct Election {
    settings: Settings,
    seen: Option<Seen>,
    view: View,
    term: Option<Term>,
    /// Refusals in a row.
    refusals: u32,
    /// No request before this time, but for a look after a refusal.
    not_before: Duration,
}

/// How far what was seen can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Certain,
    /// A request is or was under way that may have been carried out: look, when it is time, before writing
    /// again.
    Uncertain,
    /// A request was refused, so the Lease is another: look at once.
    Refuted,
}

/// The last known state of the Lease.
#[derive(Clone, Debug)]
struct Seen {
    /// As it was when it last existed.
    lease: Lease,
    exists: bool,
    /// When its content was seen to change, or, if we wrote it, when that request was sent. A holder is
    /// believed in from then on; the times *in* the Lease come from other clocks and are never looked at.
    since: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Term {
    /// When the last successful request of this term was sent.
    renewed: Duration,
}

impl Election {
    /// A candidate that has seen nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            seen: None,
            view: View::Uncertain,
            term: None,
            refusals: 0,
            not_before: Duration::ZERO,
        }
    }

    /// The Lease was read or watched; `None`: it does not exist.
    pub fn saw(&mut self, lease: Option<Lease>, now: Duration) {
        match (lease, &mut self.seen) {
            (Some(lease), Some(seen)) if version(&lease) < version(&seen.lease) => {}
            (Some(lease), Some(seen)) => {
                if lease.spec != seen.lease.spec {
                    seen.since = now;
                }
                seen.lease = lease;
                seen.exists = true;
            }
            (Some(lease), None) => self.seen = Some(Seen { lease, exists: true, since: now }),
            // Whoever deletes a Lease does not end its holder's term; it may have been renewed until now.
            (None, Some(seen)) => {
                if seen.exists {
                    seen.since = now;
                }
                seen.exists = false;
            }
            (None, None) => {
                let mut lease = Lease::default();
                lease.metadata.name = Some(self.settings.name.clone());
                self.seen = Some(Seen { lease, exists: false, since: now });
            }
        }
        self.view = View::Certain;
    }

    /// A request to write the Lease is about to be sent. Until it is answered nobody knows what the Lease is.
    pub fn sending(&mut self) {
        self.view = View::Uncertain;
    }

    /// Our request, sent at `sent`, was carried out and answered with `lease`: the term begins or goes on.
    pub fn wrote(&mut self, lease: Lease, sent: Duration) {
        self.seen = Some(Seen { lease, exists: true, since: sent });
        self.view = View::Certain;
        self.refusals = 0;
        self.not_before = sent + self.settings.renew_period;
        self.term = Some(Term { renewed: sent });
    }

    /// Our request met another state of the Lease than the one seen.
    pub fn refused(&mut self, now: Duration) {
        self.view = View::Refuted;
        self.refusals += 1;
        let pause = if self.refusals > 1 { self.settings.retry_period } else { Duration::ZERO };
        self.not_before = now + pause;
    }

    /// Our request failed, or nobody knows whether it was carried out. `jitter` is in `[0, 1)`.
    pub fn failed(&mut self, now: Duration, jitter: f64) {
        self.view = View::Uncertain;
        self.not_before = now + self.settings.retry_period.mul_f64(1.0 + 0.2 * jitter);
    }

    /// What to do now. `wall` goes into the Lease for people to read.
    #[must_use]
    pub fn decide(&self, now: Duration, wall: Timestamp) -> Step {
        match self.term {
            Some(term) => self.decide_as_holder(term, now, wall),
            None => self.decide_as_candidate(now, wall),
        }
    }

    /// The time past which a holder must not act; `None`: not the holder.
    #[must_use]
    pub fn term_ends(&self) -> Option<Duration> {
        self.term.map(|term| term.renewed + self.settings.renew_deadline)
    }

    /// Whether the Lease has to be read before it can be given up.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        self.view != View::Certain
    }

    /// The Lease to write when giving it up, so that a successor need not wait. `None`: there is nothing to
    /// give up.
    #[must_use]
    pub fn release(&self, wall: Timestamp) -> Option<Lease> {
        let seen = self.seen.as_ref().filter(|seen| seen.exists && self.is_held_by_us(seen))?;
        let mut lease = seen.lease.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        // What client-go writes: the API asks for a positive number.
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(MicroTime(wall));
        spec.renew_time = Some(MicroTime(wall));
        Some(lease)
    }

    /// Who holds the Lease, as far as known.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(holder).filter(|holder| !holder.is_empty())
    }

    fn decide_as_holder(&self, term: Term, now: Duration, wall: Timestamp) -> Step {
        let ends = term.renewed + self.settings.renew_deadline;
        if now >= ends {
            return Step::Lost(Lost::NotRenewed);
        }
        let Some(seen) = self.seen.as_ref().filter(|_| self.view != View::Refuted) else {
            return Step::Look;
        };
        if seen.exists && !self.is_held_by_us(seen) {
            return Step::Lost(Lost::TakenBy(holder(seen).to_owned()));
        }
        // A Lease that is gone is created again at once, before others take its absence for an invitation.
        let is_gone = !seen.exists && self.view == View::Certain;
        if now < self.not_before && !is_gone {
            return Step::WaitUntil(self.not_before.min(ends));
        }
        self.look_or_write(seen, wall)
    }

    fn decide_as_candidate(&self, now: Duration, wall: Timestamp) -> Step {
        if self.view == View::Refuted {
            return Step::Look;
        }
        if now < self.not_before {
            return Step::WaitUntil(self.not_before);
        }
        match &self.seen {
            None => Step::Look,
            Some(seen) if now < self.believed_until(seen) => Step::WaitUntil(self.believed_until(seen)),
            Some(seen) => self.look_or_write(seen, wall),
        }
    }

    /// How long a candidate has to stand back.
    fn believed_until(&self, seen: &Seen) -> Duration {
        if !seen.exists {
            // Deleted by somebody; whoever held it last may not even have been seen. Our first look is no
            // such case.
            seen.lease.spec.as_ref().map_or(Duration::ZERO, |_| seen.since + self.settings.lease_duration)
        } else if holder(seen).is_empty() || self.is_held_by_us(seen) {
            // Given up; or a request of ours was carried out without our knowing.
            Duration::ZERO
        } else {
            seen.since + duration(&seen.lease)
        }
    }

    fn look_or_write(&self, seen: &Seen, wall: Timestamp) -> Step {
        if self.view == View::Certain { self.write(seen, wall) } else { Step::Look }
    }

    /// Acquires or renews, keeping whatever else the Lease holds.
    fn write(&self, seen: &Seen, wall: Timestamp) -> Step {
        let mut lease = seen.lease.clone();
        let before = lease.spec.take().unwrap_or_default();
        let is_renewal = before.holder_identity.as_ref() == Some(&self.settings.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        let is_first = before.holder_identity.is_none() && before.lease_transitions.is_none();
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(self.settings.lease_seconds()),
            lease_transitions: Some(if is_renewal || is_first { transitions } else { transitions + 1 }),
            acquire_time: before.acquire_time.filter(|_| is_renewal).or(Some(MicroTime(wall))),
            renew_time: Some(MicroTime(wall)),
            ..before
        });
        if seen.exists {
            Step::Replace(lease)
        } else {
            lease.metadata.resource_version = None;
            lease.metadata.uid = None;
            Step::Create(lease)
        }
    }

    fn is_held_by_us(&self, seen: &Seen) -> bool {
        holder(seen) == self.settings.identity
    }
}

fn holder(seen: &Seen) -> &str {
    seen.lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn duration(lease: &Lease) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn version(lease: &Lease) -> u64 {
    lease.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}
