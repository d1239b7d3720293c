//! What holds for every input. The fuzzer tries to find one for which it does not; what it found interesting is kept in
//! `corpus/`, and the webhook's tests try that again each time.

use serde_json::Value;
use webservice_api::image::Reference;
use webservice_api::rules::{Policy, RULES};
use webservice_webhook::answer::encode;
use webservice_webhook::decide::{Decision, mutate, validate};
use webservice_webhook::review::Review;
use webservice_webhook::terms::Terms;

/// Any body gets a well-formed answer or none. Where the whole of it is JSON, the decision is the one about what `serde_json`
/// makes of it: nothing that was skipped or borrowed has had an influence.
pub fn review(body: &[u8]) {
    let Ok(review) = Review::decode(body) else { return };
    let canonical = serde_json::from_slice::<Value>(body).map(|value| value.to_string());
    let canonical =
        canonical.as_ref().ok().map(|text| Review::decode(text.as_bytes()).expect("it is the same review"));
    let terms = Terms::default();
    for decide in [mutate, validate] {
        let decision = decide(&review, &terms);
        let answer = encode(&review, &decision).expect("every decision can be written down");
        let answer: Value = serde_json::from_slice(&answer).expect("answers are JSON");
        assert_eq!(answer["response"]["uid"], *review.uid);
        assert_eq!(answer["response"]["allowed"], matches!(decision, Decision::Allow { .. }));
        if let Some(canonical) = &canonical {
            assert_eq!(essence(&decision), essence(&decide(canonical, &terms)));
        }
    }
}

/// A decision without its warnings, whose order is that of the text.
fn essence(decision: &Decision) -> String {
    match decision {
        Decision::Allow { patch, .. } => format!("allowed, {patch}"),
        Decision::Deny { violations, .. } => {
            let each = violations.iter().map(|violation| format!("{}: {}", violation.field, violation.rule));
            each.collect::<Vec<_>>().join("; ")
        }
        Decision::Unreadable { .. } => "unreadable".to_owned(),
    }
}

/// Any text is either taken apart into what it is made of, or has a fault that can be told.
pub fn image(text: &str) {
    match Reference::parse(text) {
        Ok(reference) => {
            let Reference { host, path, tag, digest } = reference;
            let part = |before: &str, part: Option<&str>, behind: &str| {
                part.map_or(String::new(), |part| format!("{before}{part}{behind}"))
            };
            let whole =
                format!("{}{path}{}{}", part("", host, "/"), part(":", tag, ""), part("@", digest, ""));
            assert_eq!(whole, text);
            assert!(!path.is_empty() && !path.bytes().any(|byte| byte.is_ascii_uppercase()));
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

/// Any text is either a policy, which weighs every rule, or has a fault that can be told.
pub fn policy(yaml: &[u8]) {
    match Policy::parse(yaml) {
        Ok(policy) => RULES.iter().for_each(|rule| _ = policy.level(rule)),
        Err(error) => assert!(error.to_string().starts_with("failed to read the policy: ")),
    }
}
