//! From question to decision: pure functions over a decoded review. The rules themselves are in `webservice-api`.

use json_patch::Patch;
use webservice_api::admission::{self, Operation};
use webservice_api::rules::Violation;

use crate::review::Review;
use crate::terms::Terms;

/// What is answered, before it is written down.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The request passes.
    Allow {
        /// Changes to make, empty for none.
        patch: Patch,
        /// The fields that got a value.
        defaulted: Vec<&'static str>,
        /// What the person should know.
        warnings: Vec<Violation>,
    },
    /// The request is refused.
    Deny {
        /// All reasons at once, never empty.
        violations: Vec<Violation>,
        /// What the person should know beside it.
        warnings: Vec<Violation>,
    },
    /// The request is refused because nobody can say what the object is.
    Unreadable {
        /// What the decoder says of it.
        reason: String,
    },
}

impl Decision {
    fn untouched() -> Self {
        Self::Allow { patch: Patch::default(), defaulted: Vec::new(), warnings: Vec::new() }
    }
}

/// The mutating webhook. It never refuses: what it cannot read or patch is left for validation.
#[must_use]
pub fn mutate(review: &Review<'_>, terms: &Terms) -> Decision {
    match review.request() {
        Ok(request) if review.concerns_us && !terms.exempt(&review.user, &request) => {
            let mutation = admission::mutate(&request);
            Decision::Allow { patch: mutation.patch, defaulted: mutation.defaulted, warnings: Vec::new() }
        }
        _ => Decision::untouched(),
    }
}

/// The validating webhook.
#[must_use]
pub fn validate(review: &Review<'_>, terms: &Terms) -> Decision {
    match review.request() {
        _ if !review.concerns_us => Decision::untouched(),
        Err(reason) if stores_an_object(review) => Decision::Unreadable { reason: reason.to_owned() },
        Err(_) => Decision::untouched(),
        Ok(request) if terms.exempt(&review.user, &request) => Decision::untouched(),
        Ok(request) => {
            let report = admission::validate(&request, &terms.policy);
            if report.violations.is_empty() {
                Decision::Allow { patch: Patch::default(), defaulted: Vec::new(), warnings: report.warnings }
            } else {
                Decision::Deny { violations: report.violations, warnings: report.warnings }
            }
        }
    }
}

fn stores_an_object(review: &Review<'_>) -> bool {
    matches!(review.operation, Operation::Create | Operation::Update) && review.subresource.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use webservice_api::rules::Policy;

    use super::*;
    use crate::review::{API_VERSION, REVIEW_KIND};

    fn mutate(review: &Review<'_>) -> Decision {
        super::mutate(review, &Terms::default())
    }

    fn validate(review: &Review<'_>) -> Decision {
        super::validate(review, &Terms::default())
    }

    fn decide(decide: impl Fn(&Review<'_>) -> Decision, request: &Value) -> Decision {
        let body = json!({"apiVersion": API_VERSION, "kind": REVIEW_KIND, "request": request}).to_string();
        decide(&Review::decode(body.as_bytes()).unwrap())
    }

    fn creation(spec: &Value) -> Value {
        json!({"uid": "u", "operation": "CREATE", "object": {"metadata": {"name": "a"}, "spec": spec}})
    }

    #[test]
    fn defaults_come_as_a_patch() {
        let Decision::Allow { patch, defaulted, .. } =
            decide(mutate, &creation(&json!({"image": "nginx:1.27"})))
        else {
            panic!("refused")
        };
        assert_eq!(patch.0.len(), 3);
        assert_eq!(defaulted, ["spec.replicas", "spec.tier", "metadata.finalizers"]);
    }

    #[test]
    fn all_violations_come_at_once() {
        let Decision::Deny { violations, .. } =
            decide(validate, &creation(&json!({"replicas": -1, "tier": "X_"})))
        else {
            panic!("allowed")
        };
        let fields: Vec<_> = violations.iter().map(|violation| &*violation.field).collect();
        assert_eq!(fields, ["spec.image", "spec.replicas", "spec.tier"]);
    }

    #[test]
    fn other_kinds_pass_both_webhooks() {
        let mut request = creation(&json!({}));
        request["kind"] = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        assert_eq!(decide(mutate, &request), Decision::untouched());
        assert_eq!(decide(validate, &request), Decision::untouched());
    }

    #[test]
    fn an_exempt_user_passes_where_the_spec_stays_as_it_is() {
        let terms = Terms { exempt: ["controller".to_owned()].into(), ..Terms::default() };
        let update = |user: &str, spec: &Value| {
            let object = |spec: &Value| json!({"metadata": {"name": "a"}, "spec": spec});
            let old = object(&json!({"tier": "Old_Tier"}));
            let request = json!({"uid": "u", "operation": "UPDATE", "object": object(spec), "oldObject": old, "userInfo": {"username": user}});
            decide(|review| super::validate(review, &terms), &request)
        };
        assert_eq!(update("controller", &json!({"tier": "Old_Tier"})), Decision::untouched());
        assert_ne!(update("somebody", &json!({"tier": "Old_Tier"})), Decision::untouched());
        assert!(matches!(update("controller", &json!({"tier": "New_Tier"})), Decision::Deny { .. }));
    }

    #[test]
    fn an_exempt_user_creates_like_anybody_else() {
        let terms = Terms { exempt: ["controller".to_owned()].into(), ..Terms::default() };
        let mut request = creation(&json!({}));
        request["userInfo"] = json!({"username": "controller"});
        assert!(matches!(decide(|review| super::validate(review, &terms), &request), Decision::Deny { .. }));
    }

    #[test]
    fn a_scale_beyond_the_overall_maximum_is_refused() {
        let terms =
            Terms { policy: Policy::parse(b"maxReplicas: {overall: 5}").unwrap().into(), ..Terms::default() };
        let scale = |replicas: u32| json!({"kind": "Scale", "spec": {"replicas": replicas}});
        let write = |replicas: u32| {
            let request = json!({
                "uid": "u", "operation": "UPDATE", "subResource": "scale",
                "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "object": scale(replicas), "oldObject": scale(1),
            });
            (decide(|review| super::validate(review, &terms), &request), decide(mutate, &request))
        };
        assert_eq!(write(5), (Decision::untouched(), Decision::untouched()));
        assert!(
            matches!(write(6), (Decision::Deny { violations, .. }, _) if violations[0].rule == "replicas-maximum")
        );
    }

    #[test]
    fn an_object_that_cannot_be_read_is_refused_by_validation_only() {
        let body = |operation: &str, subresource: &str| {
            format!(
                r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{"uid": "u",
                "operation": "{operation}", "subResource": "{subresource}", "object": {{"spec": {{"tier": 1e999}}}}}}}}"#
            )
        };
        let create = body("CREATE", "");
        let review = Review::decode(create.as_bytes()).unwrap();
        assert_eq!(mutate(&review), Decision::untouched());
        assert!(matches!(validate(&review), Decision::Unreadable { .. }));

        for body in [body("DELETE", ""), body("UPDATE", "status"), body("CONNECT", "")] {
            assert_eq!(validate(&Review::decode(body.as_bytes()).unwrap()), Decision::untouched());
        }
    }
}
