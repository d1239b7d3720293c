//! First beat: what should be, and what is? Gives one [`Observation`], from the caches.
//!
//! The only request that it may make is one GET of the child, where the cache cannot know: its watch selects by label, so it
//! does not see a map of the child's name that belongs to somebody else.

use std::sync::Arc;

use serde_json::{Value, json};
use webservice_api::child;
use webservice_api::conditions::Reason;
use webservice_api::constants::child_name;

use crate::dependencies::{Gate, gate};
use crate::engine::{Cached, ObjectKey, Scope, Store};
use crate::failure::Failure;
use crate::records::{ChildRecord, WebServiceRecord};
use crate::writes::Writes;

/// The caches that passes read.
#[derive(Clone, Debug)]
pub struct Caches {
    /// All WebServices of the scope.
    pub webservices: Arc<Store<WebServiceRecord>>,
    /// All ConfigMaps of the scope that carry our label.
    pub children: Arc<Store<ChildRecord>>,
}

impl Caches {
    /// Waits until both show all of `scope`.
    pub async fn wait_synced_in(&self, scope: &Scope) {
        self.webservices.wait_synced_in(scope).await;
        self.children.wait_synced_in(scope).await;
    }
}

/// Everything that a decision rests on.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Namespace and name of the WebService.
    pub key: ObjectKey,
    /// The WebService.
    pub owner: Cached<WebServiceRecord>,
    /// The ConfigMap of the child's name.
    pub child: Child,
    /// Whether the dependencies let the child be created.
    pub gate: Gate,
}

/// What is known of the ConfigMap that has the child's name.
#[derive(Clone, Debug)]
pub enum Child {
    /// The cache does not hold one, and nobody has asked the API server.
    Unseen,
    /// Confirmed absent, by the answer to a GET or a DELETE.
    Gone,
    /// There is one.
    Seen(Cached<ChildRecord>),
}

impl Child {
    /// From the answer to a GET.
    #[must_use]
    pub fn confirmed(found: Option<Cached<ChildRecord>>) -> Self {
        found.map_or(Self::Gone, Self::Seen)
    }

    /// What there is, if anything.
    #[must_use]
    pub fn seen(&self) -> Option<&Cached<ChildRecord>> {
        match self {
            Self::Seen(child) => Some(child),
            Self::Unseen | Self::Gone => None,
        }
    }
}

/// Looks at the WebService called `key` and its child. `None` if there is no such WebService (any more).
///
/// # Errors
/// The GET of a child that the cache cannot know may fail.
pub async fn observe(
    caches: &Caches,
    writes: &Writes,
    key: &ObjectKey,
) -> Result<Option<Observation>, Failure> {
    let Some(mut observation) = look(caches, key) else { return Ok(None) };
    if observation.must_ask() {
        observation.child = Child::confirmed(writes.get_child(key).await?);
    }
    Ok(Some(observation))
}

/// What the caches alone say.
#[must_use]
pub fn look(caches: &Caches, key: &ObjectKey) -> Option<Observation> {
    let owner = caches.webservices.get(key)?;
    let child = caches.children.get(&key.sibling(&child_name(key.name()))).map_or(Child::Unseen, Child::Seen);
    let gate = gate(&caches.webservices, key, &owner);
    Some(Observation { key: key.clone(), owner, child, gate })
}

impl Observation {
    /// Whether a child that the cache does not hold must be asked for: while a conflict is open, since trying to create it
    /// again would only fail again; before an owner is released, since "not in the cache" is not "gone"; and while the gate is
    /// closed on a child that was there, which may only have lost the label that the cache selects by.
    fn must_ask(&self) -> bool {
        let conflict = self.owner.ready_reason() == Reason::ChildConflict.as_str();
        let had_child = self.owner.status.replicas.is_some_and(|count| count > 0);
        matches!(self.child, Child::Unseen)
            && (conflict || self.owner.is_deleting || (had_child && self.gate != Gate::Open))
    }

    /// The child's data as it should be; none while the spec cannot be reconciled.
    #[must_use]
    pub fn desired(&self) -> Option<[(&'static str, String); 3]> {
        self.owner.spec.as_ref().ok().map(child::data)
    }

    /// For people and programs: what is desired and what there is.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let desired = match &self.owner.spec {
            Ok(spec) => json!({"image": spec.image, "replicas": spec.replicas(), "tier": spec.tier()}),
            Err(fault) => json!({"error": fault}),
        };
        let actual = self.child.seen().map(|child| {
            let [image, replicas, tier] = &child.data;
            json!({
                "name": child_name(self.key.name()),
                "uid": child.uid,
                "resourceVersion": child.version.to_string(),
                "image": image,
                "replicas": replicas.as_deref().map(|text| text.parse::<i64>().map_or(json!(text), |count| json!(count))),
                "tier": tier,
            })
        });
        json!({"desired": desired, "actual": actual})
    }
}
