//! The fields of `spec`, but for the image.

use std::collections::HashSet;

use super::names::label_fault;
use super::{Cause, Findings};
use crate::constants::{MAX_DEPENDENCIES, MAX_NAME, MAX_TIER};
use crate::draft::{Draft, Json, Quoted, SpecShape};

const KNOWN_FIELDS: [&str; 5] = ["image", "replicas", "tier", "dependsOn", "suspend"];

pub(super) fn spec_is_an_object(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    // An absent spec is told by the rule about the image: one message for one mistake.
    if let SpecShape::Other(found) = &draft.spec.shape {
        findings.add(
            Cause::Invalid,
            format!("must be an object such as {{\"image\": \"nginx:1.27\"}}, found {found}"),
        );
    }
}

pub(super) fn replicas_are_in_range(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    match &draft.spec.replicas {
        Json::Absent => {}
        Json::Integer(count) if i32::try_from(*count).is_ok_and(|count| count >= 0) => {}
        found => {
            findings
                .add(Cause::Invalid, format!("must be a whole number from 0 to {}, found {found}", i32::MAX));
        }
    }
}

pub(super) fn replicas_are_not_zero(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    if draft.spec.replicas == Json::Integer(0) {
        findings.add(Cause::Invalid, "is 0, so nothing will run");
    }
}

pub(super) fn tier_is_a_label(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    match &draft.spec.tier {
        Json::Absent => {}
        Json::Text(tier) => {
            if let Some((cause, fault)) = label_fault(tier, MAX_TIER) {
                findings.add(cause, fault);
            }
        }
        found => findings.add(Cause::Invalid, format!("must be a string such as \"dev\", found {found}")),
    }
}

pub(super) fn suspend_is_a_boolean(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    match &draft.spec.suspend {
        Json::Absent | Json::Bool(_) => {}
        found => findings.add(Cause::Invalid, format!("must be true or false, found {found}")),
    }
}

pub(super) fn dependencies_are_names(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    let entries = match &draft.spec.depends_on {
        Json::Absent => return,
        Json::List(entries) => entries,
        found => {
            return findings.add(
                Cause::Invalid,
                format!("must be a list such as [{{\"name\": \"search\"}}], found {found}"),
            );
        }
    };
    if entries.len() > MAX_DEPENDENCIES {
        return findings.add(
            Cause::TooLong,
            format!("must have at most {MAX_DEPENDENCIES} entries, found {}", entries.len()),
        );
    }
    let mut seen = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("spec.dependsOn[{index}]");
        match (entry, entry.member("name")) {
            (Json::Object(_), Json::Text(name)) => {
                if let Some((cause, fault)) = label_fault(name, MAX_NAME) {
                    findings.add_at(format!("{path}.name"), cause, fault);
                } else if !seen.insert(name) {
                    findings.add_at(
                        format!("{path}.name"),
                        Cause::Duplicate,
                        format!("{} stands twice", Quoted(name)),
                    );
                }
            }
            (Json::Object(_), Json::Absent) => {
                findings.add_at(
                    format!("{path}.name"),
                    Cause::Required,
                    "the name of a WebService is required",
                );
            }
            (Json::Object(_), found) => {
                findings.add_at(
                    format!("{path}.name"),
                    Cause::Invalid,
                    format!("must be a string, found {found}"),
                );
            }
            (found, _) => {
                let message = format!("must be an object such as {{\"name\": \"search\"}}, found {found}");
                findings.add_at(path, Cause::Invalid, message);
            }
        }
    }
}

pub(super) fn dependencies_are_others(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    let Some(own) = draft.metadata.name.as_text() else { return };
    for (index, entry) in draft.spec.depends_on.entries().iter().take(MAX_DEPENDENCIES).enumerate() {
        if entry.member("name").as_text() == Some(own) {
            findings.add_at(
                format!("spec.dependsOn[{index}].name"),
                Cause::Invalid,
                format!("{} is this WebService itself; remove the entry", Quoted(own)),
            );
        }
    }
}

pub(super) fn fields_are_known(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    for name in &draft.spec.unknown {
        let advice = match nearest(name) {
            Some(known) => format!("is no field of a WebService; did you mean {known}?"),
            None => format!("is no field of a WebService; known are {}", KNOWN_FIELDS.join(", ")),
        };
        findings.add_at(format!("spec.{}", shortened(name)), Cause::Invalid, advice);
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(63).collect()
}

/// The known field that `name` is probably meant to be: the nearest one within two edits.
fn nearest(name: &str) -> Option<&'static str> {
    const LONGEST: usize = 16;
    if name.len() > LONGEST {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let by_distance = KNOWN_FIELDS.iter().map(|known| (edits(&name, &known.to_ascii_lowercase()), *known));
    by_distance.min().filter(|(distance, _)| *distance <= 2).map(|(_, known)| known)
}

/// Levenshtein distance, in bytes.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::{Violation, check};
    use super::*;

    fn violations(field: &str, value: &str) -> Vec<Violation> {
        let json =
            format!(r#"{{"metadata": {{"name": "own"}}, "spec": {{"image": "a:1", "{field}": {value}}}}}"#);
        check(&serde_json::from_str(&json).unwrap()).violations
    }

    #[rstest]
    #[case("0")]
    #[case("1")]
    #[case("2147483647")]
    #[case("null")]
    fn replicas_in_range_are_accepted(#[case] value: &str) {
        assert_eq!(violations("replicas", value), []);
    }

    #[rstest]
    #[case(r#""3""#)]
    #[case("3.0")]
    #[case("1e1")]
    #[case("1.5")]
    #[case("-1")]
    #[case("2147483648")]
    #[case("9007199254740993")]
    #[case("99999999999999999999999")]
    #[case("true")]
    #[case("[]")]
    #[case("{}")]
    fn other_replicas_are_refused_by_name(#[case] value: &str) {
        let found = violations("replicas", value);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].field, "spec.replicas");
    }

    #[rstest]
    #[case(r#""search""#, "spec.dependsOn")]
    #[case(r#"["search"]"#, "spec.dependsOn[0]")]
    #[case("[{}]", "spec.dependsOn[0].name")]
    #[case(r#"[{"name": 7}]"#, "spec.dependsOn[0].name")]
    #[case(r#"[{"name": "a"}, {"name": "A"}]"#, "spec.dependsOn[1].name")]
    #[case(r#"[{"name": "a"}, {"name": "a"}]"#, "spec.dependsOn[1].name")]
    #[case(r#"[{"name": "a"}, {"name": "own"}]"#, "spec.dependsOn[1].name")]
    fn a_bad_dependency_is_named_by_its_path(#[case] value: &str, #[case] field: &str) {
        let found = violations("dependsOn", value);
        assert_eq!(found.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), [field]);
    }

    #[test]
    fn thirty_two_dependencies_are_the_most() {
        let list = |count: usize| {
            let entries: Vec<_> = (0..count).map(|i| format!(r#"{{"name": "d{i}"}}"#)).collect();
            format!("[{}]", entries.join(","))
        };
        assert_eq!(violations("dependsOn", &list(32)), []);
        assert_eq!(violations("dependsOn", &list(33))[0].cause, Cause::TooLong);
    }

    #[rstest]
    #[case("replica", Some("replicas"))]
    #[case("dependson", Some("dependsOn"))]
    #[case("Image", Some("image"))]
    #[case("volumes", None)]
    fn a_typing_error_is_recognised(#[case] written: &str, #[case] meant: Option<&str>) {
        assert_eq!(nearest(written), meant);
    }
}
