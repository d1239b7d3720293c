//! The types of `webservices.apps.labhub.io/v1`. The schema in [`crate::crd`] is generated from them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::defaults;

/// What should run. `image` is the only field that must be given.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "apps.labhub.io",
    version = "v1",
    kind = "WebService",
    plural = "webservices",
    shortname = "ws",
    shortname = "websvc",
    category = "labhub",
    namespaced,
    status = "WebServiceStatus",
    derive = "PartialEq",
    doc = "A WebService says which image should run, how many times, and in which tier. The controller keeps a ConfigMap named <name>-desired in step with it and reports in the status.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    selectable = ".spec.image",
    selectable = ".spec.tier"
)]
#[serde(rename_all = "camelCase")]
pub struct WebServiceSpec {
    /// Image to run, as host[:port]/path[:tag][@digest], such as nginx:1.27. Required; at most 1024 bytes.
    pub image: String,

    /// How many instances should run, 0 or more. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Tier the service belongs to: a DNS label of at most 63 characters. Default: dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,

    /// WebServices in the same namespace that must be Ready before this one is started. At most 32, and not itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,

    /// True pauses reconciling: nothing is created or changed until it is false again. Deletion still works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

impl WebServiceSpec {
    /// `replicas`, or its default.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(defaults::REPLICAS)
    }

    /// `tier`, or its default.
    #[must_use]
    pub fn tier(&self) -> &str {
        self.tier.as_deref().unwrap_or(defaults::TIER)
    }

    /// Whether reconciling is paused.
    #[must_use]
    pub fn suspended(&self) -> bool {
        self.suspend.unwrap_or(false)
    }
}

/// A reference to another WebService of the same namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Dependency {
    /// Name of the WebService to wait for.
    pub name: String,
}

/// What the controller last saw and did. Written by the controller alone, through the status subresource.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebServiceStatus {
    /// Replicas that the child ConfigMap holds; 0 while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// The metadata.generation that the controller has acted on. While it is behind, the conditions speak of an older spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// State of the WebService, by the kstatus convention: Ready always; Reconciling, Stalled and Suspended only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::crd::conditions_schema")]
    pub conditions: Vec<Condition>,
}
