//! The `CustomResourceDefinition`: the schema of [`crate::resource`], and on top of it what types cannot say.
//!
//! The schema refuses what it can by itself, so that an object is defaulted and checked even where the webhook is away.
//! Nothing is said at the root that could hold an object back for ever: Kubernetes does not ratchet the root, so an object
//! stored before a rule could no longer lose its finalizer. Hence no `required` there, and every root rule lets updates pass.
//! Below it patterns and no CEL, though CEL has the better messages: a CEL rule on a field of another type than its own is an
//! error that is not ratcheted, and would hold the object back just so.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::conditions::{READY, Reason, State};
use crate::constants::{MAX_DEPENDENCIES, MAX_IMAGE, MAX_NAME, MAX_TIER};
use crate::defaults;
use crate::resource::WebService;

/// A DNS label, as [`crate::rules`] understands it.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// What [`crate::image`] reads, as far as a regular expression can say it: not that a path has at most 255 characters, and
/// not which addresses are IPv6. The second line is what stands before a `/` and is no host: it has no dot.
const IMAGE: &str = concat!(
    r"^(((\[[0-9a-fA-F:]+\]|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*)(:[0-9]+)?",
    r"|[a-z0-9]+((_|__|-+)[a-z0-9]+)*)/",
    r"([a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*/)*)?[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*",
    r"(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?",
    r"(@(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}))?$",
);

/// What engines read as an image id.
const IMAGE_ID: &str = "^[0-9a-f]{64}$";

/// The complete definition, as it is installed.
///
/// # Errors
/// None in practice: a test runs it. The error type is that of the conversion through JSON.
pub fn crd() -> serde_json::Result<CustomResourceDefinition> {
    let mut crd = serde_json::to_value(WebService::crd())?;
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = print_columns();
    let root = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    complete_root(root);
    complete_spec(&mut root["properties"]["spec"]);
    complete_status(&mut root["properties"]["status"]);
    serde_json::from_value(crd)
}

/// What `kubectl get` shows, the last two with `-o wide`.
fn print_columns() -> Value {
    let ready = |member: &str| format!(r#".status.conditions[?(@.type=="{READY}")].{member}"#);
    let column = |name: &str, type_: &str, path: &str, priority: i32| json!({"name": name, "type": type_, "jsonPath": path, "priority": priority});
    json!([
        column("Ready", "string", &ready("status"), 0),
        column("Reason", "string", &ready("reason"), 0),
        column("Image", "string", ".spec.image", 0),
        column("Replicas", "integer", ".spec.replicas", 0),
        column("Tier", "string", ".spec.tier", 0),
        column("Age", "date", ".metadata.creationTimestamp", 0),
        column("Message", "string", &ready("message"), 1),
        column("Generation", "integer", ".metadata.generation", 1),
    ])
}

fn complete_root(root: &mut Value) {
    remove(root, "required");
    root["x-kubernetes-validations"] = json!([
        on_creation("has(self.spec)", "spec.image: an image is required; write one such as nginx:1.27"),
        on_creation(
            &format!("size(self.metadata.name) <= {MAX_NAME} && self.metadata.name.matches('{LABEL}')"),
            "metadata.name must be a DNS label of at most 63 characters",
        ),
        on_creation(
            "!has(self.spec) || !has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name)",
            "spec.dependsOn must not name the WebService itself",
        ),
    ]);
}

/// A root rule that lets every update pass.
fn on_creation(rule: &str, message: &str) -> Value {
    json!({"rule": format!("oldSelf.hasValue() || ({rule})"), "message": message, "optionalOldSelf": true})
}

fn complete_spec(spec: &mut Value) {
    let fields = &mut spec["properties"];
    for name in ["replicas", "tier", "suspend"] {
        // Without it a null is dropped and defaulted like an absent field.
        remove(&mut fields[name], "nullable");
    }
    let image = &mut fields["image"];
    image["maxLength"] = json!(MAX_IMAGE);
    image["pattern"] = json!(IMAGE);
    image["not"] = json!({"pattern": IMAGE_ID});
    let replicas = &mut fields["replicas"];
    replicas["default"] = json!(defaults::REPLICAS);
    replicas["minimum"] = json!(0);
    let tier = &mut fields["tier"];
    tier["default"] = json!(defaults::TIER);
    tier["maxLength"] = json!(MAX_TIER);
    tier["pattern"] = json!(LABEL);
    let depends_on = &mut fields["dependsOn"];
    remove(depends_on, "default");
    depends_on["maxItems"] = json!(MAX_DEPENDENCIES);
    depends_on["x-kubernetes-list-type"] = json!("map");
    depends_on["x-kubernetes-list-map-keys"] = json!(["name"]);
    let name = &mut depends_on["items"]["properties"]["name"];
    name["maxLength"] = json!(MAX_NAME);
    name["pattern"] = json!(LABEL);
}

/// A new object says at once that nobody has looked at it, so that no tool takes a missing status for a healthy one.
fn complete_status(status: &mut Value) {
    for name in ["replicas", "observedGeneration"] {
        remove(&mut status["properties"][name], "nullable");
    }
    remove(status, "nullable");
    status["default"] = json!({"conditions": [{
        "type": READY,
        "status": State::Unknown.as_str(),
        "reason": Reason::Pending.as_str(),
        "message": "Waiting for the controller",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }]});
}

fn remove(schema: &mut Value, member: &str) {
    if let Some(members) = schema.as_object_mut() {
        members.remove(member);
    }
}

/// `metav1.Condition`, as a list keyed by type: whoever writes one condition leaves those of others alone.
pub(crate) fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "State of the WebService, by the kstatus convention: Ready always; Reconciling, Stalled and Suspended only while true.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "description": "One aspect of the state.",
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316, "description": "Aspect that the condition speaks about, such as Ready."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds."},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "Why, in one machine-readable word."},
                "message": {"type": "string", "maxLength": 32768, "description": "Why, in a sentence for people."},
                "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status last changed."},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": "The metadata.generation that the condition was computed from."},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        serde_json::to_value(crd().unwrap()).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            .take()
    }

    /// Every property below `schema`, as (path, schema).
    fn properties(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            found.push((path.clone(), property.clone()));
            properties(&path, property, found);
        }
        if schema["items"].is_object() {
            properties(&format!("{path}[]"), &schema["items"], found);
        }
    }

    #[test]
    fn every_field_has_a_description() {
        let mut found = Vec::new();
        properties("", &schema(), &mut found);
        assert!(found.len() > 12, "{found:?}");
        let bare: Vec<_> = found
            .iter()
            .filter(|(path, property)| property["description"].is_null() && path != ".metadata")
            .map(|(path, _)| path)
            .collect();
        assert_eq!(bare, Vec::<&String>::new());
    }

    #[test]
    fn nothing_is_nullable_so_that_nulls_are_defaulted() {
        assert!(!schema().to_string().contains("nullable"));
    }

    #[test]
    fn below_the_root_nothing_is_said_in_cel() {
        let mut found = Vec::new();
        properties("", &schema(), &mut found);
        let with_rules = found.iter().filter(|(_, property)| !property["x-kubernetes-validations"].is_null());
        assert_eq!(with_rules.count(), 0);
    }

    #[test]
    fn every_root_rule_lets_updates_pass() {
        let schema = schema();
        assert!(schema["required"].is_null());
        for rule in schema["x-kubernetes-validations"].as_array().unwrap() {
            assert!(rule["rule"].as_str().unwrap().starts_with("oldSelf.hasValue() ||"), "{rule}");
            assert_eq!(rule["optionalOldSelf"], true);
        }
    }

    #[test]
    fn schema_defaults_are_those_of_the_webhook() {
        let spec = &schema()["properties"]["spec"]["properties"];
        assert_eq!(
            (spec["replicas"]["default"].as_i64(), spec["tier"]["default"].as_str()),
            (Some(1), Some("dev"))
        );
    }
}
