//! Fourth beat: what is told. The status is computed purely, compared ignoring times, and written only where it differs; an
//! event follows a transition, after the write succeeded.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use webservice_api::WebServiceStatus;
use webservice_api::conditions::{self, READY, RECONCILING, Reason, STALLED, SUSPENDED, State, condition};

use crate::decide::{Decision, is_in_step, own_child};
use crate::events::Events;
use crate::failure::Failure;
use crate::observe::Observation;
use crate::writes::Writes;

/// How long a WebService stays as Ready as it was while requests fail.
pub const FAILING_UNTIL_NOT_READY: Duration = Duration::from_secs(30);

/// Writes the status if it differs from the stored one. Gives whether it was written.
pub async fn report(
    writes: &Writes,
    events: &dyn Events,
    seen: &Observation,
    wanted: WebServiceStatus,
) -> Result<bool, Failure> {
    let stored = &seen.owner.status;
    if !conditions::differs(&wanted, stored) {
        return Ok(false);
    }
    let timed = conditions::with_transition_times(wanted.conditions, &stored.conditions, Timestamp::now());
    let status = WebServiceStatus { conditions: timed, ..wanted };
    match writes.apply_status(&seen.key, &seen.owner, &status).await {
        Ok(()) => {}
        // It vanished meanwhile: there is nobody to tell any more.
        Err(Failure::NotFound) => return Ok(false),
        Err(failure) => {
            if let (Failure::Rejected { .. }, Some(ready)) =
                (&failure, conditions::find(&status.conditions, READY))
            {
                tracing::warn!(key = %seen.key, reason = ready.reason, "the status cannot be written: {}", ready.message);
            }
            return Err(failure);
        }
    }
    if let Some(ready) =
        conditions::find(&status.conditions, READY).filter(|ready| is_transition(ready, stored))
    {
        events.transition(&seen.key, &seen.owner.uid, ready);
    }
    Ok(true)
}

/// Whether the Ready condition is worth an event: it says something else than the stored one, in a word.
fn is_transition(ready: &Condition, stored: &WebServiceStatus) -> bool {
    conditions::find(&stored.conditions, READY)
        .is_none_or(|before| (&before.status, &before.reason) != (&ready.status, &ready.reason))
}

/// The status after a pass that ended with `decision`.
#[must_use]
pub fn status(seen: &Observation, decision: &Decision) -> WebServiceStatus {
    let word = decision.word;
    let (ready, beside) = match word {
        Reason::Reconciled => (true, None),
        Reason::Suspended => (is_in_step(seen), Some(SUSPENDED)),
        Reason::DependencyCycle | Reason::ChildConflict | Reason::InvalidSpec => (false, Some(STALLED)),
        _ => (false, Some(RECONCILING)),
    };
    let generation = seen.owner.generation;
    let message = bounded(decision.reason.clone());
    let told = |type_: &str, state| condition(type_, state, word, &message, generation);
    let ready = told(READY, ready.into());
    let conditions = std::iter::once(ready).chain(beside.map(|type_| told(type_, State::True))).collect();
    WebServiceStatus {
        replicas: Some(replicas_of_child(seen)),
        observed_generation: Some(generation),
        conditions,
    }
}

/// The status while requests fail: Ready stays as it was for a while, then turns False.
#[must_use]
pub fn failing_status(
    seen: &Observation,
    failure: &Failure,
    failing_for: Duration,
) -> Option<WebServiceStatus> {
    let word = failure.word()?;
    let generation = seen.owner.generation;
    let told = |type_: &str, state| condition(type_, state, word, &bounded(failure.to_string()), generation);
    let stored = &seen.owner.status;
    let is_new = conditions::find(&stored.conditions, READY).is_none();
    let reconciling = told(RECONCILING, State::True);
    if failure.lasts() || failing_for >= FAILING_UNTIL_NOT_READY || is_new {
        return Some(WebServiceStatus {
            replicas: Some(replicas_of_child(seen)),
            observed_generation: Some(generation),
            conditions: vec![told(READY, State::False), reconciling],
        });
    }
    // The stored generation stays: nothing has been acted on yet.
    let mut conditions = stored.conditions.clone();
    conditions.retain(|condition| condition.type_ == READY);
    conditions.push(reconciling);
    Some(WebServiceStatus { conditions, ..stored.clone() })
}

/// What our child holds, 0 without one. A map of somebody else, or a number that cannot be one, counts for nothing.
fn replicas_of_child(seen: &Observation) -> i32 {
    let held = own_child(seen).and_then(|child| child.data[1].as_deref()?.parse().ok());
    held.filter(|count| *count >= 0).unwrap_or(0)
}

/// Keeps a message of others within what a condition may hold.
fn bounded(message: String) -> String {
    const LONGEST: usize = 1024;
    if message.chars().count() <= LONGEST { message } else { message.chars().take(LONGEST).collect() }
}

#[cfg(test)]
mod tests;
