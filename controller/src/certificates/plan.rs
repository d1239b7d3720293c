//! What is to be done about the certificates now: a pure decision over what there is and the present instant.
//!
//! Everything follows from what is stored, on every pass; nothing is remembered of what an earlier pass did, but for how long
//! the CA has been seen to be trusted. After a step there is more, and [`plan`] is asked again, until it rests.
//!
//! Two delays are waited out. API servers take a moment to trust a new CA ([`Terms::overlap`]), so nothing is signed by it
//! before. Pods take a moment to serve a new leaf, so a CA is trusted until it expires, and the next CA is not made before a leaf
//! of the present one is in its Secret.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use webservice_certs::expiry::{self, Decision};
use webservice_certs::{Bundle, Ca, Validity};

/// What the certificates are to be like.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The webhook's Service.
    pub service: String,
    /// Its namespace.
    pub namespace: String,
    /// The life of a new CA.
    pub ca_lifetime: SignedDuration,
    /// The life of a new leaf.
    pub leaf_lifetime: SignedDuration,
    /// How long a CA must have been seen in every registration before a leaf of it is served, while another CA is trusted, too.
    pub overlap: Duration,
}

impl Terms {
    /// The name that API servers call the webhook by: the one that a leaf must have.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }

    /// All names of the Service, from that one on.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let Self { service, namespace, .. } = self;
        let (host, long) = (self.host(), format!("{}.cluster.local", self.host()));
        [host, service.clone(), format!("{service}.{namespace}"), long].into_iter()
    }
}

/// What there is.
#[derive(Debug)]
pub struct State {
    /// The CA of its Secret, or why there is none.
    pub ca: Result<Ca, String>,
    /// Whether a person asks for a new CA.
    pub is_ca_asked: bool,
    /// The leaf of its Secret, or why there is none.
    pub leaf: Result<Stored, String>,
    /// Whether a person asks for a new leaf.
    pub is_leaf_asked: bool,
    /// Every CA that the two Secrets name, newest first.
    pub known: Bundle,
    /// `ca.crt` of the CA's Secret, which is to hold all that is trusted.
    pub remembered: Vec<u8>,
    /// Of each registration that exists, the `caBundle` of each of its webhooks.
    pub registrations: Vec<Vec<Vec<u8>>>,
    /// For how long every registration has been seen to hold the CA.
    pub trusted_for: Duration,
}

/// A leaf that has been read, with the key that belongs to it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The certificate and its issuers, PEM.
    pub chain: Vec<u8>,
    /// Its life.
    pub validity: Validity,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a CA with a new key, and store it with all that is trusted.
    MakeCa {
        /// Why, in a few words.
        because: String,
    },
    /// Store what is trusted with the CA.
    Remember(Bundle),
    /// Have API servers trust these CAs.
    Publish {
        /// In which registration, by its place in [`State::registrations`].
        registration: usize,
        /// The CAs.
        bundle: Bundle,
    },
    /// Issue a leaf with a new key.
    IssueLeaf {
        /// Why, in a few words.
        because: String,
    },
    /// Nothing now.
    Rest {
        /// When something is known to be due.
        until_due: Option<Duration>,
    },
}

/// Decides on the next step.
#[must_use]
pub fn plan(state: &State, terms: &Terms, now: Timestamp) -> Step {
    let ca = match usable(state, now) {
        Ok(ca) => ca,
        Err(because) => return Step::MakeCa { because },
    };
    let present = Bundle::readable(ca.certificate_pem().as_bytes());
    let signed_by_it = state.leaf.as_ref().is_ok_and(|leaf| is_good(&present, leaf, terms, now));
    if signed_by_it && let Some(because) = renewal(ca.validity(), state.is_ca_asked, now) {
        return Step::MakeCa { because };
    }
    let trusted = present.clone().joined(&state.known, now);
    let wanted = why_issue(state, signed_by_it, now);
    // Where no other CA was ever trusted, or nobody accepts what is served, waiting protects nobody.
    let waits = !signed_by_it && is_another_trusted(&present, &trusted, state) && !is_over(state, now);
    if let Some(because) = &wanted
        && !waits
    {
        return Step::IssueLeaf { because: because.clone() };
    }
    if state.remembered != trusted.to_pem().as_bytes() {
        return Step::Remember(trusted);
    }
    if let Some((registration, bundle)) = unpublished(&trusted, &state.registrations, now) {
        return Step::Publish { registration, bundle };
    }
    let left = terms.overlap.saturating_sub(state.trusted_for);
    match wanted {
        None => Step::Rest { until_due: None },
        Some(because) if left.is_zero() => Step::IssueLeaf { because },
        Some(_) => Step::Rest { until_due: Some(left) },
    }
}

/// The first registration that does not hold all of `trusted`, and what it is to hold: nothing is taken away but what has expired, since
/// somebody else may have had a reason to trust it, such as another TLS mode before this one.
pub(super) fn unpublished(
    trusted: &Bundle,
    registrations: &[Vec<Vec<u8>>],
    now: Timestamp,
) -> Option<(usize, Bundle)> {
    registrations.iter().enumerate().find_map(|(index, present)| {
        let all = |all: Bundle, pem: &Vec<u8>| all.joined(&Bundle::readable(pem), now);
        let wanted = present.iter().fold(trusted.clone(), all);
        let text = wanted.to_pem();
        present.iter().any(|pem| pem != text.as_bytes()).then_some((index, wanted))
    })
}

fn usable(state: &State, now: Timestamp) -> Result<&Ca, String> {
    let ca = state.ca.as_ref().map_err(Clone::clone)?;
    match expiry::decide(ca.validity(), now) {
        Decision::Expired => Err(EXPIRED.to_owned()),
        Decision::Keep | Decision::Renew => Ok(ca),
    }
}

const EXPIRED: &str = "the present one has expired";

fn is_good(trusted: &Bundle, leaf: &Stored, terms: &Terms, now: Timestamp) -> bool {
    trusted.vouches_for(&leaf.chain, &terms.host(), now).is_ok()
}

fn renewal(validity: Validity, is_asked: bool, now: Timestamp) -> Option<String> {
    let is_due = expiry::decide(validity, now) == Decision::Renew;
    let because = if is_due {
        "two thirds of the life of the present one have passed"
    } else {
        is_asked.then_some("a person asks for it")?
    };
    Some(because.to_owned())
}

fn why_issue(state: &State, signed_by_present_ca: bool, now: Timestamp) -> Option<String> {
    match &state.leaf {
        Err(why) => Some(why.clone()),
        Ok(_) if is_over(state, now) => Some(EXPIRED.to_owned()),
        Ok(_) if !signed_by_present_ca => {
            Some("the present one has another name, or was signed by another CA".to_owned())
        }
        Ok(leaf) => renewal(leaf.validity, state.is_leaf_asked, now),
    }
}

fn is_over(state: &State, now: Timestamp) -> bool {
    state.leaf.as_ref().is_ok_and(|leaf| leaf.validity.is_over(now))
}

fn is_another_trusted(present: &Bundle, trusted: &Bundle, state: &State) -> bool {
    let published = state.registrations.iter().flatten().map(|pem| Bundle::readable(pem));
    published.chain([trusted.clone()]).any(|bundle| !present.holds(&bundle))
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
