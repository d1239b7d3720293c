//! Second beat: how is the difference closed? A pure function, without clock, client or randomness.
//!
//! A decision that writes is followed by another look; a pass ends with a decision that *rests*: nothing left to do
//! (`Noop`), something to wait for (`Requeue`), or something that a person must settle (`Refuse`). What rests is what the
//! status tells.

use std::time::Duration;

use serde_json::{Value, json};
use webservice_api::child::DATA_KEYS;
use webservice_api::conditions::Reason;
use webservice_api::constants::{FINALIZER, ORPHAN_FINALIZER, child_name};
use webservice_api::draft::Quoted;

use crate::dependencies::Gate;
use crate::engine::Cached;
use crate::observe::{Child, Observation};
use crate::records::{ChildRecord, Controller};

/// When something that an event will announce is looked at even without one.
pub const BACKSTOP: Duration = Duration::from_mins(5);

/// What a pass will do next, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is done.
    pub action: Action,
    /// To what, such as `configmap/checkout-desired`.
    pub target: String,
    /// Why, in a sentence for a person.
    pub reason: String,
    /// The same in a word, for the Ready condition.
    pub word: Reason,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the child.
    Create,
    /// Put the named fields of the child back.
    Update {
        /// Such as `data.image`.
        fields: Vec<&'static str>,
    },
    /// Become the owner of a child that has none, or whose owner is dead.
    Adopt,
    /// Delete a child that can no longer be changed, so that it is created anew.
    Replace,
    /// Delete the child of a WebService that is being deleted.
    Cleanup,
    /// Remove the finalizer: the child is confirmed gone.
    Release,
    /// Nothing.
    Noop,
    /// Wait. An event will announce what is waited for; this is when to look without one.
    Requeue {
        /// From now.
        after: Duration,
    },
    /// Leave everything as it is until a person has settled it.
    Refuse {
        /// When to look again all the same, where no event would tell.
        after: Option<Duration>,
    },
}

impl Action {
    /// All that [`Self::as_str`] gives.
    pub const WORDS: [&str; 9] =
        ["create", "update", "adopt", "replace", "cleanup", "release", "noop", "requeue", "refuse"];

    /// The word for it, in output and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update { .. } => "update",
            Self::Adopt => "adopt",
            Self::Replace => "replace",
            Self::Cleanup => "cleanup",
            Self::Release => "release",
            Self::Noop => "noop",
            Self::Requeue { .. } => "requeue",
            Self::Refuse { .. } => "refuse",
        }
    }

    /// Whether a pass ends with it.
    #[must_use]
    pub const fn rests(&self) -> bool {
        matches!(self, Self::Noop | Self::Requeue { .. } | Self::Refuse { .. })
    }
}

impl Decision {
    /// For programs: `action`, `reason`, `target`, and what belongs to the action.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({"action": self.action.as_str(), "reason": self.reason, "target": self.target});
        match &self.action {
            Action::Update { fields } => json["fields"] = json!(fields),
            Action::Requeue { after } => {
                json["after_seconds"] = json!(after.as_secs());
                json["is_error"] = json!(false);
            }
            _ => {}
        }
        json
    }
}

/// Whose a ConfigMap of the child's name is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ownership {
    /// The WebService is its controller.
    Ours,
    /// It bears our labels, and its owner is nobody or an earlier WebService of the same name, which is dead for certain.
    Adoptable,
    /// Somebody else's; with a sentence that says whose.
    Foreign(String),
}

/// What to do next.
#[must_use]
pub fn decide(seen: &Observation) -> Decision {
    if seen.owner.is_deleting {
        return on_deletion(seen);
    }
    let suspended = match &seen.owner.spec {
        Err(fault) => return seen.refuse(Reason::InvalidSpec, None, fault.to_string()),
        Ok(spec) => spec.suspended(),
    };
    if suspended {
        return seen.noop(Reason::Suspended, "Reconciling is paused by spec.suspend".into());
    }
    match seen.child.seen() {
        None => without_child(seen),
        Some(child) => with_child(seen, child),
    }
}

/// The child, if there is one and the WebService is its controller.
#[must_use]
pub fn own_child(seen: &Observation) -> Option<&Cached<ChildRecord>> {
    seen.child.seen().filter(|child| ownership(seen, child) == Ownership::Ours)
}

/// Whether the child is there, is ours and holds what it should.
#[must_use]
pub fn is_in_step(seen: &Observation) -> bool {
    own_child(seen).is_some_and(|child| !child.is_deleting && drift(seen, child).is_empty())
}

fn without_child(seen: &Observation) -> Decision {
    closed_gate(seen).unwrap_or_else(|| {
        let reason = format!("ConfigMap {} does not exist yet", seen.child_name());
        seen.write(Action::Create, Reason::Pending, reason)
    })
}

fn with_child(seen: &Observation, child: &Cached<ChildRecord>) -> Decision {
    let name = seen.child_name();
    let drift = match ownership(seen, child) {
        Ownership::Foreign(whose) => {
            return seen.refuse(
                Reason::ChildConflict,
                Some(BACKSTOP),
                format!("ConfigMap {name} {whose}; delete or rename it, or rename the WebService"),
            );
        }
        // Whether ours or left by a predecessor, it is on its way out: its own event tells when it has gone.
        _ if child.is_deleting => {
            let reason = format!("ConfigMap {name} is being deleted and something holds a finalizer on it");
            return seen.wait(Reason::ChildTerminating, reason);
        }
        Ownership::Adoptable => {
            return seen.write(
                Action::Adopt,
                Reason::Pending,
                format!("ConfigMap {name} is ours by its labels but has no living owner"),
            );
        }
        Ownership::Ours => drift(seen, child),
    };
    if let Some((first, ..)) = drift.first() {
        let fields: Vec<_> = drift.iter().map(|(field, _)| *field).collect();
        let reason = drift.iter().map(|(_, fault)| fault.as_str()).collect::<Vec<_>>().join("; ");
        if child.must_be_replaced && first.starts_with("data.") {
            let reason = format!("{reason}; ConfigMap {name} is immutable or holds the key in binaryData");
            return seen.write(Action::Replace, Reason::Pending, reason);
        }
        return seen.write(Action::Update { fields }, Reason::Pending, reason);
    }
    closed_gate(seen)
        .unwrap_or_else(|| seen.noop(Reason::Reconciled, format!("ConfigMap {name} matches the spec")))
}

/// What to rest with while the dependencies are not Ready.
fn closed_gate(seen: &Observation) -> Option<Decision> {
    match &seen.gate {
        Gate::Open => None,
        Gate::Waiting(waiting) => {
            let names: Vec<_> = waiting.iter().map(ToString::to_string).collect();
            Some(seen.wait(
                Reason::DependencyNotReady,
                format!("Waiting for dependencies: {}", abridged(&names, ", ")),
            ))
        }
        Gate::Cycle(names) => {
            let reason = format!("spec.dependsOn leads back to itself: {}", abridged(names, " → "));
            Some(seen.refuse(Reason::DependencyCycle, None, reason))
        }
    }
}

/// The parts joined; of many only the first and the last, so that a message stays one.
fn abridged(parts: &[String], separator: &str) -> String {
    const SHOWN: usize = 5;
    match parts {
        [first @ .., last] if first.len() > SHOWN => {
            [&first[..SHOWN], &["…".into(), last.clone()]].concat().join(separator)
        }
        _ => parts.join(separator),
    }
}

fn on_deletion(seen: &Observation) -> Decision {
    let name = seen.child_name();
    if seen.owner.has_finalizer(ORPHAN_FINALIZER) {
        let reason = format!("The garbage collector is releasing ConfigMap {name}, as the deletion asked");
        return seen.wait(Reason::Deleting, reason);
    }
    let is_ours = |child: &Cached<ChildRecord>| ownership(seen, child) == Ownership::Ours;
    match &seen.child {
        Child::Unseen => {
            let reason =
                format!("The WebService is being deleted; whether ConfigMap {name} exists must be asked");
            seen.write(Action::Cleanup, Reason::Deleting, reason)
        }
        Child::Seen(child) if is_ours(child) && child.is_deleting => seen.wait(
            Reason::Deleting,
            format!("ConfigMap {name} is being deleted and something holds a finalizer on it"),
        ),
        Child::Seen(child) if is_ours(child) => seen.write(
            Action::Cleanup,
            Reason::Deleting,
            format!("The WebService is being deleted, so ConfigMap {name} goes first"),
        ),
        _ if seen.owner.has_finalizer(FINALIZER) => {
            let reason = format!("ConfigMap {name} is gone, so nothing holds the WebService any more");
            Decision { target: seen.owner_target(), ..seen.write(Action::Release, Reason::Deleting, reason) }
        }
        _ => seen.noop(Reason::Deleting, "Cleaned up; finalizers of others hold the WebService".into()),
    }
}

fn ownership(seen: &Observation, child: &ChildRecord) -> Ownership {
    match &child.controller {
        Controller::WebService { uid, .. } if *uid == seen.owner.uid => Ownership::Ours,
        Controller::WebService { name, .. } if **name != *seen.key.name() => {
            Ownership::Foreign(format!("belongs to WebService {name}"))
        }
        Controller::Other(other) => Ownership::Foreign(format!("is controlled by {other}")),
        Controller::Nobody | Controller::WebService { .. } if child.has_our_labels => Ownership::Adoptable,
        Controller::Nobody | Controller::WebService { .. } => {
            Ownership::Foreign("exists without our labels, so it is somebody else's".into())
        }
    }
}

/// The fields of our child that are not as they should be, each with a sentence. Keys, labels and annotations of others are
/// not looked at.
fn drift(seen: &Observation, child: &ChildRecord) -> Vec<(&'static str, String)> {
    const DATA_FIELDS: [&str; DATA_KEYS.len()] = ["data.image", "data.replicas", "data.tier"];
    let desired = seen.desired().into_iter().flatten();
    let data = desired.zip(DATA_FIELDS).zip(&child.data).filter_map(|(((_, want), field), have)| match have
        .as_deref()
    {
        Some(have) if have == want => None,
        Some(have) => Some((field, format!("{field} is {}, should be {}", Quoted(have), Quoted(&want)))),
        None => Some((field, format!("{field} is missing"))),
    });
    let labels = [("metadata.labels", child.has_our_labels)];
    let labels = labels
        .into_iter()
        .filter(|(_, right)| !right)
        .map(|(field, _)| (field, "our labels were changed".into()));
    data.chain(labels).collect()
}

impl Observation {
    /// Name of the child.
    #[must_use]
    pub fn child_name(&self) -> String {
        child_name(self.key.name())
    }

    fn owner_target(&self) -> String {
        format!("webservice/{}", self.key.name())
    }

    fn write(&self, action: Action, word: Reason, reason: String) -> Decision {
        Decision { action, target: format!("configmap/{}", self.child_name()), reason, word }
    }

    fn noop(&self, word: Reason, reason: String) -> Decision {
        self.write(Action::Noop, word, reason)
    }

    fn wait(&self, word: Reason, reason: String) -> Decision {
        self.write(Action::Requeue { after: BACKSTOP }, word, reason)
    }

    fn refuse(&self, word: Reason, after: Option<Duration>, reason: String) -> Decision {
        self.write(Action::Refuse { after }, word, reason)
    }
}

#[cfg(test)]
mod tests;
