//! What the API server's audit log keeps of a decision. It puts the webhook's name before each key, so keys are one word.

use serde::Serialize;
use webservice_api::rules::Violation;

use crate::decide::Decision;

/// `auditAnnotations` of an answer. Values are rule ids and paths of ours, never what somebody wrote into an object.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Annotations {
    decision: &'static str,
    /// Ids of the rules for which the request was refused.
    #[serde(skip_serializing_if = "String::is_empty")]
    rules: String,
    /// Ids of the rules of which the person was warned.
    #[serde(skip_serializing_if = "String::is_empty")]
    warnings: String,
    /// The fields that got a value.
    #[serde(skip_serializing_if = "String::is_empty")]
    defaulted: String,
}

pub(crate) fn annotations(decision: &Decision) -> Annotations {
    match decision {
        Decision::Allow { defaulted, warnings, .. } => Annotations {
            decision: "allowed",
            warnings: ids(warnings),
            defaulted: defaulted.join(","),
            ..Annotations::default()
        },
        Decision::Deny { violations, warnings } => Annotations {
            decision: "denied",
            rules: ids(violations),
            warnings: ids(warnings),
            ..Annotations::default()
        },
        Decision::Unreadable { .. } => {
            Annotations { decision: "denied", rules: "unreadable".to_owned(), ..Annotations::default() }
        }
    }
}

/// Each id once, in the order of the table: an object may break one rule in many places.
pub(crate) fn ids(violations: &[Violation]) -> String {
    let mut ids: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
    ids.dedup();
    ids.join(",")
}

#[cfg(test)]
mod tests {
    use json_patch::Patch;
    use serde_json::{Value, json, to_value};
    use webservice_api::rules::Cause;

    use super::*;

    fn broken(rules: &[&'static str]) -> Vec<Violation> {
        let violation = |rule: &&'static str| Violation {
            rule,
            field: String::new(),
            message: String::new(),
            cause: Cause::Invalid,
        };
        rules.iter().map(violation).collect()
    }

    fn annotated(decision: &Decision) -> Value {
        to_value(annotations(decision)).unwrap()
    }

    #[test]
    fn a_permission_tells_of_warnings_and_defaults_where_there_are_any() {
        let allow = |defaulted: &[&'static str], warnings: &[&'static str]| Decision::Allow {
            patch: Patch::default(),
            defaulted: defaulted.to_vec(),
            warnings: broken(warnings),
        };
        assert_eq!(annotated(&allow(&[], &[])), json!({"decision": "allowed"}));
        assert_eq!(
            annotated(&allow(&["spec.replicas", "spec.tier"], &["image-pinned"])),
            json!({"decision": "allowed", "defaulted": "spec.replicas,spec.tier", "warnings": "image-pinned"})
        );
    }

    #[test]
    fn a_denial_tells_each_rule_once() {
        let denial = Decision::Deny {
            violations: broken(&["image-required", "depends-on-list", "depends-on-list"]),
            warnings: broken(&["unknown-field"]),
        };
        assert_eq!(
            annotated(&denial),
            json!({"decision": "denied", "rules": "image-required,depends-on-list", "warnings": "unknown-field"})
        );
        let unreadable = annotated(&Decision::Unreadable { reason: "because".to_owned() });
        assert_eq!(unreadable, json!({"decision": "denied", "rules": "unreadable"}));
    }
}
