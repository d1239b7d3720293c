//! Names: the object's own, and the form that every name here has.

use super::{Cause, Findings};
use crate::constants::MAX_NAME;
use crate::draft::{Draft, Json, Quoted};

/// Why `text` is no DNS label (RFC 1123) of at most `longest` characters, or `None` where it is one.
pub(super) fn label_fault(text: &str, longest: usize) -> Option<(Cause, String)> {
    if text.is_empty() {
        return Some((Cause::Invalid, "must not be empty".into()));
    }
    if text.len() > longest {
        return Some((
            Cause::TooLong,
            format!("must have at most {longest} characters, found {}", text.len()),
        ));
    }
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-');
    (!is_label).then(|| {
        let form =
            "must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends";
        (Cause::Invalid, format!("{form}, found {}", Quoted(text)))
    })
}

pub(super) fn name_is_a_label(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    match (&draft.metadata.name, &draft.metadata.generate_name) {
        // The API server cuts a long prefix and appends five characters, so only its letters can be wrong.
        (Json::Absent, Json::Text(prefix)) => {
            let generated = format!("{}x", prefix.get(..MAX_NAME - 5).unwrap_or(prefix));
            if let Some((cause, fault)) = label_fault(&generated, MAX_NAME) {
                findings.add_at(
                    "metadata.generateName",
                    cause,
                    format!("as the beginning of a name {fault}"),
                );
            }
        }
        // Without either the API server has its own answer.
        (Json::Absent, _) => {}
        (Json::Text(name), _) => {
            if let Some((cause, fault)) = label_fault(name, MAX_NAME) {
                findings.add(cause, fault);
            }
        }
        (other, _) => findings.add(Cause::Invalid, format!("must be a string, found {other}")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a")]
    #[case("checkout-2")]
    #[case("0")]
    fn labels_are_accepted(#[case] text: &str) {
        assert_eq!(label_fault(text, 63), None);
    }

    #[rstest]
    #[case("")]
    #[case("-a")]
    #[case("a-")]
    #[case("A")]
    #[case("a.b")]
    #[case("a_b")]
    #[case("ä")]
    #[case("a b")]
    fn other_texts_are_not(#[case] text: &str) {
        assert!(label_fault(text, 63).is_some());
    }

    #[test]
    fn sixty_three_characters_are_the_most() {
        assert_eq!(label_fault(&"a".repeat(63), 63), None);
        assert_eq!(label_fault(&"a".repeat(64), 63).map(|(cause, _)| cause), Some(Cause::TooLong));
    }

    #[rstest]
    #[case(r#"{"metadata": {"generateName": "w-"}, "spec": {"image": "a:1"}}"#, 0)]
    #[case(r#"{"metadata": {"generateName": "W."}, "spec": {"image": "a:1"}}"#, 1)]
    #[case(r#"{"metadata": {"name": 5}, "spec": {"image": "a:1"}}"#, 1)]
    fn a_prefix_is_judged_where_there_is_no_name(#[case] json: &str, #[case] violations: usize) {
        assert_eq!(super::super::check(&serde_json::from_str(json).unwrap()).violations.len(), violations);
    }

    #[test]
    fn a_long_prefix_is_cut_by_the_api_server_and_no_fault() {
        let json = format!(
            r#"{{"metadata": {{"generateName": "{}"}}, "spec": {{"image": "a:1"}}}}"#,
            "w".repeat(250)
        );
        assert_eq!(super::super::check(&serde_json::from_str(&json).unwrap()).violations, []);
    }
}
