//! Conditions: their types and reasons, and how a status is compared and merged.
//!
//! The types follow [kstatus](https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md): `Ready` is
//! always there; the "abnormal-true" types stand beside it only while they are true. Their order is fixed, since a
//! status that differs in nothing but order would be written again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::resource::WebServiceStatus;

/// Whether the child matches the spec.
pub const READY: &str = "Ready";
/// True while the controller still works towards the spec, or waits for something that will wake it.
pub const RECONCILING: &str = "Reconciling";
/// True while nothing will happen until a person acts.
pub const STALLED: &str = "Stalled";
/// True while `spec.suspend` pauses reconciling.
pub const SUSPENDED: &str = "Suspended";

/// The types that this controller writes, in the order in which it writes them. Conditions of other types are others'.
pub const TYPES: [&str; 4] = [READY, RECONCILING, STALLED, SUSPENDED];

/// Machine-readable reasons of the conditions.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reason {
    /// Schema default: no controller has looked at the object yet.
    Pending,
    /// The child matches the spec.
    Reconciled,
    /// Something in `dependsOn` is missing or not Ready.
    DependencyNotReady,
    /// The object waits for itself through `dependsOn`.
    DependencyCycle,
    /// A ConfigMap of the child's name belongs to somebody else.
    ChildConflict,
    /// The child is being deleted, and somebody's finalizer holds it.
    ChildTerminating,
    /// Somebody undoes what the controller writes.
    Contested,
    /// The stored spec breaks a structural rule.
    InvalidSpec,
    /// Deletion has begun; the child is being cleaned up.
    Deleting,
    /// The API server does not let the controller do what it must: RBAC, quota or admission policy.
    Forbidden,
    /// The API server could not be reached or failed.
    ApiError,
    /// `spec.suspend` is true.
    Suspended,
}

impl Reason {
    /// The word in the condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Reconciled => "Reconciled",
            Self::DependencyNotReady => "DependencyNotReady",
            Self::DependencyCycle => "DependencyCycle",
            Self::ChildConflict => "ChildConflict",
            Self::ChildTerminating => "ChildTerminating",
            Self::Contested => "Contested",
            Self::InvalidSpec => "InvalidSpec",
            Self::Deleting => "Deleting",
            Self::Forbidden => "Forbidden",
            Self::ApiError => "ApiError",
            Self::Suspended => "Suspended",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl State {
    /// The word in the condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for State {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// A condition of our own without its time, which is filled in when it is written.
#[must_use]
pub fn condition(type_: &str, state: State, reason: Reason, message: &str, generation: i64) -> Condition {
    Condition {
        type_: type_.into(),
        status: state.as_str().into(),
        reason: reason.as_str().into(),
        message: message.into(),
        observed_generation: Some(generation),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// The condition of the given type.
#[must_use]
pub fn find<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether `status` says Ready=True.
#[must_use]
pub fn is_ready(conditions: &[Condition]) -> bool {
    find(conditions, READY).is_some_and(|ready| ready.status == State::True.as_str())
}

/// Gives every condition of `wanted` its time: that of the stored one while its state is the same, otherwise `now`.
#[must_use]
pub fn with_transition_times(wanted: Vec<Condition>, stored: &[Condition], now: Timestamp) -> Vec<Condition> {
    let timed = |condition: Condition| {
        let since = find(stored, &condition.type_).filter(|before| before.status == condition.status);
        let last_transition_time = since.map_or(Time(now), |before| before.last_transition_time.clone());
        Condition { last_transition_time, ..condition }
    };
    wanted.into_iter().map(timed).collect()
}

/// Whether writing `wanted` over `stored` would change anything but times. Conditions of others are not compared.
#[must_use]
pub fn differs(wanted: &WebServiceStatus, stored: &WebServiceStatus) -> bool {
    let own = |status: &WebServiceStatus| -> Vec<Condition> {
        let ours = status.conditions.iter().filter(|condition| TYPES.contains(&condition.type_.as_str()));
        ours.map(|c| Condition { last_transition_time: Time(Timestamp::UNIX_EPOCH), ..c.clone() }).collect()
    };
    wanted.replicas != stored.replicas
        || wanted.observed_generation != stored.observed_generation
        || own(wanted) != own(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(conditions: Vec<Condition>) -> WebServiceStatus {
        WebServiceStatus { replicas: Some(1), observed_generation: Some(1), conditions }
    }

    fn ready(state: State) -> Condition {
        condition(READY, state, Reason::Reconciled, "in step", 1)
    }

    fn at(seconds: i64, condition: Condition) -> Condition {
        Condition { last_transition_time: Time(Timestamp::from_second(seconds).unwrap()), ..condition }
    }

    #[test]
    fn a_status_that_differs_in_times_alone_is_the_same() {
        assert!(!differs(&status(vec![ready(State::True)]), &status(vec![at(7, ready(State::True))])));
    }

    #[test]
    fn a_status_that_differs_in_a_reason_is_another() {
        let other = condition(READY, State::True, Reason::Suspended, "in step", 1);
        assert!(differs(&status(vec![ready(State::True)]), &status(vec![other])));
    }

    #[test]
    fn conditions_of_others_are_not_compared() {
        let foreign = Condition { type_: "Audited".into(), ..ready(State::True) };
        assert!(!differs(&status(vec![ready(State::True)]), &status(vec![foreign, ready(State::True)])));
    }

    #[test]
    fn the_time_of_a_condition_moves_with_its_state_alone() {
        let now = Timestamp::from_second(100).unwrap();
        let stored = [at(7, ready(State::True))];
        let same = with_transition_times(vec![ready(State::True)], &stored, now);
        assert_eq!(same[0].last_transition_time, stored[0].last_transition_time);
        let turned = with_transition_times(vec![ready(State::False)], &stored, now);
        assert_eq!(turned[0].last_transition_time.0, now);
    }
}
