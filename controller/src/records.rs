//! What the caches keep of an object: what `observe` needs, and nothing else.
//!
//! Watches decode into [`RawWebService`] and [`RawChild`], which skip managedFields and annotations unread and accept any
//! JSON where a user can put any: one object that does not fit must never blind the controller to all others.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use webservice_api::constants::{
    API_VERSION, GROUP, KIND, MANAGED_BY, MANAGED_BY_LABEL, MAX_IMAGE, NAME_LABEL, PLURAL, VERSION,
    owner_name,
};
use webservice_api::draft::{Draft, Json, Metadata, Spec};
use webservice_api::{WebServiceSpec, WebServiceStatus, child, conditions, rules};

/// A WebService as the cache keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct WebServiceRecord {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether deletion has begun.
    pub is_deleting: bool,
    /// `metadata.finalizers`, all of them, since one is removed by its position.
    pub finalizers: Box<[Box<str>]>,
    /// The spec, or what makes it impossible to reconcile, in a sentence.
    pub spec: Result<WebServiceSpec, Box<str>>,
    /// The status as it is stored, without conditions of others.
    pub status: WebServiceStatus,
}

impl WebServiceRecord {
    /// Whether the stored status says Ready=True.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        conditions::is_ready(&self.status.conditions)
    }

    /// The reason of the stored Ready condition, empty without one.
    #[must_use]
    pub fn ready_reason(&self) -> &str {
        conditions::find(&self.status.conditions, conditions::READY).map_or("", |ready| &ready.reason)
    }

    /// Names of the WebServices that this one waits for.
    pub fn dependencies(&self) -> impl Iterator<Item = &str> {
        self.spec.iter().flat_map(|spec| &spec.depends_on).map(|dependency| dependency.name.as_str())
    }

    /// Whether `finalizer` is listed.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|listed| **listed == *finalizer)
    }
}

/// A ConfigMap that has the name of a child, as the cache keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildRecord {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// Whether deletion has begun.
    pub is_deleting: bool,
    /// Whether its data can only be put right by making it anew: it is immutable, or `binaryData` holds a key of ours, which may
    /// stand in one of the two only, and which an apply cannot take away.
    pub must_be_replaced: bool,
    /// Who controls it.
    pub controller: Controller,
    /// Whether both labels that mark our children are there and right.
    pub has_our_labels: bool,
    /// The values of [`child::DATA_KEYS`], in that order; none where the key is missing.
    pub data: [Option<Box<str>>; child::DATA_KEYS.len()],
}

/// Who controls an object, by its ownerReference with `controller: true`.
#[derive(Clone, Debug, PartialEq)]
pub enum Controller {
    /// Nobody.
    Nobody,
    /// A WebService.
    WebService {
        /// Its name.
        name: Box<str>,
        /// Its uid.
        uid: Box<str>,
    },
    /// Something else, as `kind/name`.
    Other(Box<str>),
}

/// A WebService as it comes from the API server.
#[derive(Clone, Debug, Deserialize)]
pub struct RawWebService {
    #[serde(deserialize_with = "lean_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

impl RawWebService {
    /// The conditions that others have written.
    #[must_use]
    pub fn foreign_conditions(&self) -> Vec<Condition> {
        readable_conditions(&self.status).filter(|condition| !is_ours(condition)).collect()
    }
}

impl From<RawWebService> for WebServiceRecord {
    fn from(raw: RawWebService) -> Self {
        let RawWebService { metadata, spec, status } = raw;
        let spec = decode_spec(metadata.name.as_deref().unwrap_or_default(), spec);
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default().into_iter().map(Into::into).collect(),
            spec,
            status: decode_status(&status),
        }
    }
}

/// The spec if it breaks no structural rule, which implies that it decodes.
fn decode_spec(name: &str, spec: Value) -> Result<WebServiceSpec, Box<str>> {
    let unread = |error: serde_json::Error| Box::from(format!("spec: failed to decode: {error}"));
    let draft = Draft {
        metadata: Metadata { name: Json::Text(Cow::Borrowed(name)), ..Metadata::default() },
        spec: Spec::deserialize(&spec).map_err(unread)?,
        ..Draft::default()
    };
    let violations = rules::check_structure(&draft);
    if !violations.is_empty() {
        return Err(rules::sentence(&violations).into());
    }
    serde_json::from_value(without_nulls(spec)).map_err(unread)
}

/// Nulls mean absence, which the typed decoder does not know of every field.
fn without_nulls(mut spec: Value) -> Value {
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    spec
}

/// Our part of the status, as far as it can be read: what others have written beside it must not make ours unreadable.
fn decode_status(status: &Value) -> WebServiceStatus {
    let mut conditions: Vec<_> = readable_conditions(status).filter(is_ours).collect();
    conditions.shrink_to_fit();
    WebServiceStatus {
        replicas: status.get("replicas").and_then(Value::as_i64).and_then(|count| count.try_into().ok()),
        observed_generation: status.get("observedGeneration").and_then(Value::as_i64),
        conditions,
    }
}

fn readable_conditions(status: &Value) -> impl Iterator<Item = Condition> {
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.filter_map(|condition| Condition::deserialize(condition).ok())
}

fn is_ours(condition: &Condition) -> bool {
    conditions::TYPES.contains(&condition.type_.as_str())
}

/// A ConfigMap as it comes from the API server.
#[derive(Clone, Debug, Deserialize)]
pub struct RawChild {
    #[serde(deserialize_with = "lean_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    data: RawData,
    #[serde(default, rename = "binaryData")]
    binary_data: RawBinaryData,
    #[serde(default)]
    immutable: Option<bool>,
}

/// Our keys where they do not belong.
#[derive(Clone, Debug, Default, Deserialize)]
struct RawBinaryData {
    image: Option<IgnoredAny>,
    replicas: Option<IgnoredAny>,
    tier: Option<IgnoredAny>,
}

/// The data that is ours; further keys are skipped unread.
#[derive(Clone, Debug, Default, Deserialize)]
struct RawData {
    image: Option<String>,
    replicas: Option<String>,
    tier: Option<String>,
}

impl From<RawChild> for ChildRecord {
    fn from(raw: RawChild) -> Self {
        let RawChild { metadata, data, binary_data, immutable } = raw;
        let owner = metadata.name.as_deref().and_then(owner_name);
        let RawBinaryData { image, replicas, tier } = binary_data;
        let holds_a_key = [image, replicas, tier].iter().any(Option::is_some);
        let label =
            |name: &str| metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str);
        Self {
            has_our_labels: label(MANAGED_BY_LABEL) == Some(MANAGED_BY) && label(NAME_LABEL) == owner,
            controller: controller_of(metadata.owner_references.unwrap_or_default()),
            uid: metadata.uid.unwrap_or_default().into(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            must_be_replaced: immutable == Some(true) || holds_a_key,
            data: [data.image, data.replicas, data.tier].map(|value| value.map(bounded)),
        }
    }
}

/// Keeps of a value at most one byte more than a right one can have: enough to see that it is wrong.
fn bounded(value: String) -> Box<str> {
    match value.get(..=MAX_IMAGE) {
        Some(start) => start.into(),
        None if value.len() > MAX_IMAGE => value.chars().take(MAX_IMAGE + 1).collect::<String>().into(),
        None => value.into(),
    }
}

fn controller_of(owners: Vec<OwnerReference>) -> Controller {
    let Some(owner) = owners.into_iter().find(|owner| owner.controller == Some(true)) else {
        return Controller::Nobody;
    };
    if is_webservice(&owner) {
        Controller::WebService { name: owner.name.into(), uid: owner.uid.into() }
    } else {
        Controller::Other(format!("{}/{}", owner.kind, owner.name).into())
    }
}

/// Whether the reference names a WebService, of whichever version.
#[must_use]
pub fn is_webservice(owner: &OwnerReference) -> bool {
    owner.kind == KIND && owner.api_version.split('/').next() == Some(GROUP)
}

/// The members of `metadata` that are kept; the rest, above all managedFields, is skipped without being built.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    labels: Option<std::collections::BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

fn lean_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let lean = LeanMetadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: lean.name,
        namespace: lean.namespace,
        uid: lean.uid,
        resource_version: lean.resource_version,
        generation: lean.generation,
        deletion_timestamp: lean.deletion_timestamp,
        finalizers: lean.finalizers,
        labels: lean.labels,
        owner_references: lean.owner_references,
        ..ObjectMeta::default()
    })
}

macro_rules! resource {
    ($type:ident, $kind:expr, $group:expr, $version:expr, $api_version:expr, $plural:expr) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn api_version((): &()) -> Cow<'_, str> {
                $api_version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(RawWebService, KIND, GROUP, VERSION, API_VERSION, PLURAL);
resource!(RawChild, "ConfigMap", "", "v1", "v1", "configmaps");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn webservice(object: Value) -> WebServiceRecord {
        serde_json::from_value::<RawWebService>(object).unwrap().into()
    }

    fn child(object: Value) -> ChildRecord {
        serde_json::from_value::<RawChild>(object).unwrap().into()
    }

    #[test]
    fn an_object_that_does_not_fit_is_kept_with_what_is_wrong_about_it() {
        for (spec, field) in [
            (json!(null), "spec.image"),
            (json!("x"), "spec"),
            (json!({"image": "a:1", "replicas": "two"}), "spec.replicas"),
            (json!({"image": "a:1", "tier": 7}), "spec.tier"),
        ] {
            let record = webservice(json!({"metadata": {"name": "a"}, "spec": spec}));
            let fault = record.spec.unwrap_err();
            assert!(fault.contains(field), "{fault}");
        }
    }

    #[test]
    fn nulls_of_a_stored_spec_mean_absence() {
        let record = webservice(
            json!({"metadata": {"name": "a"}, "spec": {"image": "a:1", "dependsOn": null, "replicas": null}}),
        );
        assert_eq!(record.spec.map(|spec| spec.replicas()), Ok(1));
    }

    #[test]
    fn conditions_of_others_are_not_kept() {
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"conditions": [condition("Audited"), condition("Ready")]});
        let record = webservice(json!({"metadata": {"name": "a"}, "status": status}));
        assert_eq!(record.status.conditions.len(), 1);
        assert!(record.is_ready());
    }

    #[test]
    fn a_condition_of_others_that_cannot_be_read_leaves_ours_readable() {
        let condition = |type_: &str, time: &str| json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time});
        let conditions =
            [condition("Audited", "9999-12-31T23:59:59Z"), condition("Ready", "2026-01-01T00:00:00Z")];
        let record = webservice(
            json!({"metadata": {"name": "a"}, "status": {"replicas": 3, "conditions": conditions}}),
        );
        assert!(record.is_ready());
        assert_eq!(record.status.replicas, Some(3));
    }

    #[test]
    fn a_status_that_cannot_be_read_counts_as_none() {
        let record = webservice(json!({"metadata": {"name": "a"}, "status": {"replicas": "many"}}));
        assert_eq!(record.status, WebServiceStatus::default());
    }

    #[test]
    fn of_a_child_only_what_is_ours_is_kept() {
        let record = child(json!({
            "metadata": {
                "name": "checkout-desired",
                "labels": {"app.kubernetes.io/managed-by": "webservice-controller", "app.kubernetes.io/name": "other"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u0"},
                    {"apiVersion": "apps.labhub.io/v2", "kind": "WebService", "name": "checkout", "uid": "u1", "controller": true},
                ],
            },
            "data": {"image": "a:1", "foreign": "x"},
        }));
        assert!(!record.has_our_labels, "the name label is another's");
        assert_eq!(record.controller, Controller::WebService { name: "checkout".into(), uid: "u1".into() });
        assert_eq!(record.data, [Some("a:1".into()), None, None]);
    }

    #[test]
    fn a_huge_value_is_cut_but_still_wrong() {
        let record = child(json!({"metadata": {"name": "a-desired"}, "data": {"image": "é".repeat(4096)}}));
        assert!(record.data[0].as_deref().is_some_and(|kept| kept.len() > MAX_IMAGE && kept.len() < 4096));
    }
}
