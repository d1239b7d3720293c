//! The answer as the API server reads it: `admission.k8s.io/v1`, with the question's uid.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use serde::Serialize;
use webservice_api::constants::{GROUP, KIND};
use webservice_api::rules::{self, Violation};

use crate::audit::{self, Annotations};
use crate::decide::Decision;
use crate::review::Review;
use crate::warnings;

/// What every answer begins with.
const BEGINNING: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":"#;

/// Bytes that hold all but long refusals, so that the text need not grow.
const USUAL: usize = 1024;

/// Writes the answer to `review` as JSON.
pub fn encode(review: &Review<'_>, decision: &Decision) -> serde_json::Result<Vec<u8>> {
    let audit_annotations = audit::annotations(decision);
    let mut response = Response { uid: &review.uid, audit_annotations, ..Response::default() };
    match decision {
        Decision::Allow { warnings, .. } => {
            response.allowed = true;
            response.warnings = warnings::write(warnings);
        }
        Decision::Deny { violations, warnings } => {
            response.warnings = warnings::write(warnings);
            response.status = Some(invalid(review, violations));
        }
        Decision::Unreadable { reason } => response.status = Some(unreadable(reason)),
    }
    let mut text = Vec::with_capacity(USUAL);
    text.extend_from_slice(BEGINNING.as_bytes());
    serde_json::to_writer(&mut text, &response)?;
    if let Decision::Allow { patch, .. } = decision
        && !patch.0.is_empty()
    {
        append_patch(&mut text, patch)?;
    }
    text.push(b'}');
    Ok(text)
}

/// Makes the patch the last member of the response that was just written. It is long and needs no escapes, which the
/// serializer could not know.
fn append_patch(text: &mut Vec<u8>, patch: &Patch) -> serde_json::Result<()> {
    let patch = serde_json::to_vec(patch)?;
    text.pop();
    text.extend_from_slice(br#","patchType":"JSONPatch","patch":""#);
    text.extend_from_slice(STANDARD.encode(patch).as_bytes());
    text.extend_from_slice(br#""}"#);
    Ok(())
}

/// As the API server itself refuses invalid objects, so that clients show each field on a line of its own.
fn invalid<'a>(review: &'a Review<'_>, violations: &'a [Violation]) -> Status<'a> {
    Status {
        outcome: "Failure",
        message: rules::sentence(violations),
        reason: "Invalid",
        code: 422,
        details: Some(Details {
            name: &review.name,
            group: GROUP,
            kind: KIND,
            causes: violations.iter().map(StatusCause::from).collect(),
        }),
    }
}

fn unreadable(reason: &str) -> Status<'static> {
    Status {
        outcome: "Failure",
        message: format!("failed to read the object: {reason}"),
        reason: "BadRequest",
        code: 400,
        details: None,
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    audit_annotations: Annotations,
}

/// `metav1.Status`.
#[derive(Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    outcome: &'static str,
    message: String,
    reason: &'static str,
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

#[derive(Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    group: &'static str,
    kind: &'static str,
    causes: Vec<StatusCause<'a>>,
}

#[derive(Serialize)]
struct StatusCause<'a> {
    reason: &'static str,
    message: &'a str,
    field: &'a str,
}

impl<'a> From<&'a Violation> for StatusCause<'a> {
    fn from(violation: &'a Violation) -> Self {
        Self { reason: violation.cause.as_str(), message: &violation.message, field: &violation.field }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use webservice_api::rules::Cause;

    use super::*;
    use crate::review::{API_VERSION, REVIEW_KIND};

    fn violation(field: &str) -> Violation {
        Violation {
            rule: "some-rule",
            field: field.to_owned(),
            message: "must be better".to_owned(),
            cause: Cause::Invalid,
        }
    }

    fn answer(decision: &Decision) -> Value {
        let body = json!({
            "apiVersion": API_VERSION, "kind": REVIEW_KIND,
            "request": {"uid": "u-\"1\"", "operation": "CREATE", "name": "checkout"},
        })
        .to_string();
        let review = Review::decode(body.as_bytes()).unwrap();
        serde_json::from_slice(&encode(&review, decision).unwrap()).unwrap()
    }

    fn allow(patch: Patch, warnings: Vec<Violation>) -> Decision {
        Decision::Allow { patch, defaulted: Vec::new(), warnings }
    }

    #[test]
    fn a_plain_permission_says_nothing_more() {
        assert_eq!(
            answer(&allow(Patch::default(), Vec::new())),
            json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u-\"1\"", "allowed": true, "auditAnnotations": {"decision": "allowed"}},
            })
        );
    }

    #[test]
    fn a_patch_is_base64_of_a_json_patch() {
        let operations = json!([{"op": "add", "path": "/spec/replicas", "value": 1}]);
        let response =
            answer(&allow(serde_json::from_value(operations.clone()).unwrap(), Vec::new()))["response"]
                .take();
        assert_eq!(response["patchType"], "JSONPatch");
        let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&patch).unwrap(), operations);
    }

    #[test]
    fn a_refusal_names_every_field_and_the_object() {
        let violations = vec![violation("spec.image"), violation("spec.tier")];
        let response =
            answer(&Decision::Deny { violations, warnings: vec![violation("spec.x")] })["response"].take();
        assert_eq!(
            response,
            json!({
                "uid": "u-\"1\"", "allowed": false,
                "auditAnnotations": {"decision": "denied", "rules": "some-rule", "warnings": "some-rule"},
                "warnings": ["spec.x: must be better"],
                "status": {
                    "status": "Failure", "code": 422, "reason": "Invalid",
                    "message": "spec.image: must be better; spec.tier: must be better",
                    "details": {
                        "name": "checkout", "group": "apps.labhub.io", "kind": "WebService",
                        "causes": [
                            {"reason": "FieldValueInvalid", "message": "must be better", "field": "spec.image"},
                            {"reason": "FieldValueInvalid", "message": "must be better", "field": "spec.tier"},
                        ],
                    },
                },
            })
        );
    }

    #[test]
    fn an_unreadable_object_is_a_bad_request() {
        let response =
            answer(&Decision::Unreadable { reason: "number out of range".to_owned() })["response"].take();
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
        assert_eq!(response["status"]["message"], "failed to read the object: number out of range");
    }
}
