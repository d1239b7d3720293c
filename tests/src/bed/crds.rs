//! Variants of the CRD, to see what the webhook and the controller do by themselves.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, from_value, json, to_value};

use super::must::Must;
use super::test_cluster::current_crd;

/// The CRD as it is shipped.
#[must_use]
pub fn shipped() -> CustomResourceDefinition {
    current_crd()
}

/// Types and nothing else: no defaults, no required fields, no rules, no bounds. What is missing or wrong in a value is
/// for the webhook alone to say.
#[must_use]
pub fn without_rules() -> CustomResourceDefinition {
    variant(|version| {
        const RULES: [&str; 11] = [
            "default",
            "required",
            "x-kubernetes-validations",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "maxItems",
            "pattern",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
        ];
        let schema = &mut version["schema"]["openAPIV3Schema"];
        strip(&mut schema["properties"]["spec"], &RULES);
        strip_here(schema, &RULES);
        strip_scale(version);
    })
}

/// Anything may stand in `spec`, or nothing: what an older or a broken CRD may have let in.
#[must_use]
pub fn anything_goes() -> CustomResourceDefinition {
    variant(|version| {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] = json!({"x-kubernetes-preserve-unknown-fields": true});
        strip_here(schema, &["required", "x-kubernetes-validations"]);
        strip_scale(version);
    })
}

/// The shipped one with one more field in `spec`, such as a later version may have.
#[must_use]
pub fn with_a_later_field(name: &str) -> CustomResourceDefinition {
    variant(|version| {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["properties"][name] = json!({"type": "string"});
    })
}

fn variant(change: impl FnOnce(&mut Value)) -> CustomResourceDefinition {
    let mut crd = to_value(shipped()).must("write the CRD as JSON");
    let version = &mut crd["spec"]["versions"][0];
    change(version);
    // They need typed fields to select on.
    strip_here(version, &["selectableFields"]);
    from_value(crd).must("read the CRD from JSON")
}

/// Removes keywords from a schema and all schemas in it.
fn strip(schema: &mut Value, keywords: &[&str]) {
    strip_here(schema, keywords);
    for property in
        schema["properties"].as_object_mut().into_iter().flat_map(|properties| properties.values_mut())
    {
        strip(property, keywords);
    }
    if schema["items"].is_object() {
        strip(&mut schema["items"], keywords);
    }
}

/// The scale subresource brings a rule of its own: replicas are a number, and not negative.
fn strip_scale(version: &mut Value) {
    strip_here(&mut version["subresources"], &["scale"]);
}

fn strip_here(schema: &mut Value, keywords: &[&str]) {
    if let Some(members) = schema.as_object_mut() {
        members.retain(|keyword, _| !keywords.contains(&keyword.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(crd: &CustomResourceDefinition) -> Value {
        let crd = to_value(crd).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
    }

    #[test]
    fn without_rules_the_types_are_left() {
        let spec = spec(&without_rules());
        assert_eq!(spec["properties"]["replicas"]["type"], "integer");
        for rule in ["default", "required", "validations", "minimum", "maxLength", "maxItems"] {
            assert!(!spec.to_string().contains(&format!("\"{rule}")), "{rule} is left in {spec:#}");
        }
    }
}
