//! What holds for every input. The fuzzer tries to find one for which it does not; what it found interesting is kept in
//! `corpus/`, and the webhook's tests try that again each time.

use serde_json::Value;
use webservice_api::image::Reference;
use webservice_api::rules::{Policy, RULES};
use webservice_webhook::answer::encode;
use webservice_webhook::decide::{Decision, mutate, validate};
use webservice_webhook::json::Condensed;
use webservice_webhook::review::Review;
use webservice_webhook::terms::Terms;

/// Any body gets a well-formed answer or none. Where the whole of it is JSON, the decision is the one about what `serde_json`
/// makes of it, and about what is kept of it when it arrives in pieces: nothing that was skipped or borrowed has an influence.
pub fn review(body: &[u8]) {
    let mut condensed = Condensed::default();
    body.chunks(1 + body.len() % 61).for_each(|piece| condensed.push(piece));
    let condensed = condensed.into_text();
    let Ok(review) = Review::decode(body) else { return };
    for decide in [mutate, validate] {
        let decision = decide(&review, &Terms::default());
        let answer = encode(&review, &decision).expect("every decision can be written down");
        let answer: Value = serde_json::from_slice(&answer).expect("answers are JSON");
        assert_eq!(answer["response"]["uid"], *review.uid);
        assert_eq!(answer["response"]["allowed"], matches!(decision, Decision::Allow { .. }));
    }
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        assert_eq!(essence(value.to_string().as_bytes()), essence(body));
        assert_eq!(essence(&condensed), essence(body));
    }
}

/// What is decided about a review, without the warnings, whose order is that of the text.
fn essence(body: &[u8]) -> [String; 2] {
    let review = Review::decode(body).expect("it is a review");
    [mutate, validate].map(|decide| match decide(&review, &Terms::default()) {
        Decision::Allow { patch, .. } => format!("allowed, {patch}"),
        Decision::Deny { violations, .. } => {
            let each = violations.iter().map(|violation| format!("{}: {}", violation.field, violation.rule));
            each.collect::<Vec<_>>().join("; ")
        }
        Decision::Unreadable { .. } => "unreadable".to_owned(),
    })
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
