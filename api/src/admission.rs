//! What the webhook answers, as pure functions of the review.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::constants::FINALIZER;
use crate::defaults;
use crate::draft::{Draft, Json, SpecShape};
use crate::rules::{Policy, Report};

/// What the caller wants to do with the object.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Create it.
    Create,
    /// Change it.
    Update,
    /// Delete it.
    Delete,
    /// Open a connection to it.
    Connect,
    /// Something that this version does not know.
    #[default]
    #[serde(other)]
    Other,
}

/// The part of an admission request that decides the answer.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r, 'a> {
    /// What is done.
    pub operation: Operation,
    /// The subresource that is written, empty for the object itself.
    pub subresource: &'r str,
    /// The object as it would be stored; absent on deletion.
    pub object: Option<&'r Draft<'a>>,
    /// The object as it is stored; absent on creation.
    pub old_object: Option<&'r Draft<'a>>,
}

impl<'r, 'a> Request<'r, 'a> {
    /// The object to look at: one that is created or changed as a whole and is not on its way out. Everything else is
    /// none of the webhook's business and passes untouched.
    fn subject(&self) -> Option<&'r Draft<'a>> {
        let is_deleting = match self.operation {
            // The API server clears a deletionTimestamp that somebody writes into a new object, but only later.
            Operation::Create => false,
            Operation::Update => self.old_object.or(self.object).is_some_and(Draft::is_deleting),
            _ => return None,
        };
        self.object.filter(|_| self.subresource.is_empty() && !is_deleting)
    }

    /// The two Scales of a write to the scale subresource.
    fn scales(&self) -> Option<(&'r Draft<'a>, &'r Draft<'a>)> {
        let is_scale = self.operation == Operation::Update && self.subresource == SCALE;
        self.old_object.zip(self.object).filter(|_| is_scale)
    }

    /// Whether an update leaves alone whatever rules are about. They look at nothing but the spec: a name never changes.
    #[must_use]
    pub fn is_beside_the_rules(&self) -> bool {
        let same = |(old, new): (&Draft<'_>, &Draft<'_>)| old.spec == new.spec;
        self.operation == Operation::Update && self.old_object.zip(self.object).is_some_and(same)
    }
}

/// The subresource that autoscalers and `kubectl scale` write.
const SCALE: &str = "scale";

/// The change that the mutating webhook makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    /// JSON patch, empty where nothing is to be changed.
    pub patch: Patch,
    /// The fields that got a value.
    pub defaulted: Vec<&'static str>,
}

/// Fills absent fields with their defaults and adds the cleanup finalizer. A value that was given is never rewritten, and
/// what cannot be patched sensibly, such as a `spec` that is a string, is left for validation to refuse.
#[must_use]
pub fn mutate(request: &Request<'_, '_>) -> Mutation {
    let mut mutation = Mutation::default();
    let Some(object) = request.subject() else { return mutation };
    if object.spec.shape == SpecShape::Object {
        if object.spec.replicas.is_absent() {
            mutation.add("spec.replicas", ["spec", "replicas"], json!(defaults::REPLICAS));
        }
        if object.spec.tier.is_absent() {
            mutation.add("spec.tier", ["spec", "tier"], json!(defaults::TIER));
        }
    }
    match &object.metadata.finalizers {
        _ if !object.metadata.is_object || object.has_finalizer(FINALIZER) => {}
        Json::List(entries) if !entries.is_empty() => {
            mutation.add("metadata.finalizers", ["metadata", "finalizers", "-"], json!(FINALIZER));
        }
        // Adding to an existing member replaces it (RFC 6902, 4.1), and the API server drops empty lists: one operation for both.
        Json::Absent | Json::List(_) => {
            mutation.add("metadata.finalizers", ["metadata", "finalizers"], json!([FINALIZER]));
        }
        _ => {}
    }
    mutation
}

impl Mutation {
    fn add<const N: usize>(&mut self, field: &'static str, path: [&str; N], value: Value) {
        self.patch.0.push(PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(path), value }));
        self.defaulted.push(field);
    }
}

/// Checks a creation against all rules, an update against those that it breaks anew, and a Scale against the most replicas.
#[must_use]
pub fn validate(request: &Request<'_, '_>, policy: &Policy) -> Report {
    match (request.subject(), request.old_object) {
        (None, _) => request.scales().map_or_else(Report::default, |(old, new)| policy.check_scale(old, new)),
        (Some(new), Some(old)) if request.operation == Operation::Update => policy.check_update(old, new),
        (Some(new), _) => policy.check(new),
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn validate(request: &Request<'_, '_>) -> Report {
        super::validate(request, &Policy::default())
    }

    fn request<'r, 'a>(operation: Operation, object: &'r Draft<'a>) -> Request<'r, 'a> {
        Request { operation, subresource: "", object: Some(object), old_object: None }
    }

    /// The object after the webhook's patch.
    fn mutated(object: &Value) -> Value {
        let draft = Draft::deserialize(object).unwrap();
        let mutation = mutate(&request(Operation::Create, &draft));
        let mut result = object.clone();
        json_patch::patch(&mut result, &mutation.patch).expect("the patch applies");
        result
    }

    #[test]
    fn a_minimal_object_gets_both_defaults_and_the_finalizer() {
        let result = mutated(&json!({"metadata": {"name": "a"}, "spec": {"image": "nginx:1.27"}}));
        assert_eq!(result["spec"], json!({"image": "nginx:1.27", "replicas": 1, "tier": "dev"}));
        assert_eq!(result["metadata"]["finalizers"], json!([FINALIZER]));
    }

    #[test]
    fn values_that_were_given_stay() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"image": "x", "replicas": 0, "tier": "", "note": "keep"}});
        assert_eq!(mutated(&object)["spec"], object["spec"]);
    }

    #[test]
    fn nulls_are_defaulted_like_absent_fields() {
        let result = mutated(
            &json!({"metadata": {"name": "a", "finalizers": null}, "spec": {"replicas": null, "tier": null}}),
        );
        assert_eq!(result["spec"], json!({"replicas": 1, "tier": "dev"}));
    }

    #[test]
    fn finalizers_of_others_keep_their_place() {
        let result = mutated(&json!({"metadata": {"finalizers": ["x.io/keep"]}, "spec": {}}));
        assert_eq!(result["metadata"]["finalizers"], json!(["x.io/keep", FINALIZER]));
    }

    #[test]
    fn an_empty_list_of_finalizers_is_filled() {
        assert_eq!(
            mutated(&json!({"metadata": {"finalizers": []}, "spec": {}}))["metadata"]["finalizers"],
            json!([FINALIZER])
        );
    }

    #[test]
    fn a_malformed_spec_is_left_for_validation() {
        for spec in [json!("x"), json!([]), json!(7), json!(null)] {
            let object = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": spec});
            assert_eq!(mutated(&object), object);
            let draft = Draft::deserialize(&object).unwrap();
            assert!(!validate(&request(Operation::Create, &draft)).violations.is_empty());
        }
    }

    #[test]
    fn an_object_on_its_way_out_passes_untouched() {
        let object = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}});
        let draft = Draft::deserialize(&object).unwrap();
        assert_eq!(mutate(&request(Operation::Update, &draft)), Mutation::default());
        assert_eq!(validate(&request(Operation::Update, &draft)), Report::default());
    }

    #[test]
    fn a_new_object_is_completed_whatever_it_says_of_its_deletion() {
        let result = mutated(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}));
        assert_eq!(result["metadata"]["finalizers"], json!([FINALIZER]));
    }

    #[test]
    fn subresources_and_other_operations_pass_untouched() {
        let object = json!({"metadata": {}, "spec": {}});
        let draft = Draft::deserialize(&object).unwrap();
        let status = Request { subresource: "status", ..request(Operation::Update, &draft) };
        for request in [
            status,
            request(Operation::Delete, &draft),
            request(Operation::Connect, &draft),
            request(Operation::Other, &draft),
        ] {
            assert_eq!(mutate(&request), Mutation::default());
            assert_eq!(validate(&request), Report::default());
        }
    }

    #[test]
    fn an_update_that_leaves_an_old_fault_alone_is_accepted_with_a_warning() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"tier": "Old_Tier", "image": "nginx:1.27"}});
        let new = json!({"metadata": {"name": "a"}, "spec": {"tier": "Old_Tier", "image": "nginx:1.28"}});
        let (old, new) = (Draft::deserialize(&old).unwrap(), Draft::deserialize(&new).unwrap());
        let report = validate(&Request { old_object: Some(&old), ..request(Operation::Update, &new) });
        assert_eq!((report.violations.len(), report.warnings.len()), (0, 1));
    }
}
