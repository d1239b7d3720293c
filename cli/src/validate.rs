//! `validate`: files against the rule table, without a cluster.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use webservice_api::constants::{API_VERSION, KIND};
use webservice_api::draft::{Draft, Json};
use webservice_api::rules::{Policy, Report, Violation};

use crate::args::ValidateArgs;
use crate::error::Error;
use crate::output::{Answer, Verdict, text};

pub(crate) fn run(args: &ValidateArgs) -> Result<Answer, Error> {
    let policy = args.policy.as_deref().map(read_policy).transpose()?.unwrap_or_default();
    let findings: Vec<_> = args.files.iter().flat_map(|path| read(path, &policy)).collect();
    Ok(answer(&findings))
}

fn read_policy(path: &Path) -> Result<Policy, Error> {
    let unusable = |reason: String| Error::Policy { path: path.to_owned(), reason };
    let yaml = std::fs::read(path).map_err(|error| unusable(format!("failed to read it: {error}")))?;
    Policy::parse(&yaml).map_err(|error| unusable(error.to_string()))
}

/// What was found in one place of one file.
#[derive(Debug)]
struct Finding {
    /// Such as `shop.yaml: document 2`.
    place: String,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    /// It is a WebService, and the rules say this of it.
    Checked { name: Option<String>, report: Report },
    /// It is something else, as the sentence says.
    Stranger(String),
    /// It could not be read, as the sentence says.
    Unreadable(String),
}

impl Finding {
    /// Why the rules could not be asked, in a sentence.
    fn fault(&self) -> Option<String> {
        let place = &self.place;
        match &self.outcome {
            Outcome::Checked { .. } => None,
            Outcome::Stranger(fault) => Some(format!("{place} is no WebService: {fault}")),
            Outcome::Unreadable(fault) => Some(format!("{place}: {fault}")),
        }
    }

    fn is_valid(&self) -> bool {
        matches!(&self.outcome, Outcome::Checked { report, .. } if report.violations.is_empty())
    }

    fn lines(&self) -> Vec<String> {
        let Outcome::Checked { name, report } = &self.outcome else { return Vec::new() };
        let name = name.as_deref().map_or(String::new(), |name| format!(" {name}"));
        let verdict = if self.is_valid() { "valid" } else { "not valid" };
        let mut lines = vec![format!("{}, WebService{name}: {verdict}", self.place)];
        lines.extend(report.violations.iter().map(|violation| format!("  {violation}")));
        lines.extend(report.warnings.iter().map(|warning| format!("  warning: {warning}")));
        lines
    }

    fn to_json(&self) -> Value {
        let told = |violation: &Violation| {
            let Violation { rule, field, message, cause } = violation;
            json!({"field": field, "message": message, "rule": rule, "cause": cause.as_str()})
        };
        let Outcome::Checked { name, report } = &self.outcome else {
            return json!({"place": self.place, "valid": false, "error": self.fault()});
        };
        json!({
            "place": self.place,
            "name": name,
            "valid": self.is_valid(),
            "violations": report.violations.iter().map(told).collect::<Vec<_>>(),
            "warnings": report.warnings.iter().map(told).collect::<Vec<_>>(),
        })
    }
}

fn answer(findings: &[Finding]) -> Answer {
    let all_valid = findings.iter().all(Finding::is_valid);
    Answer {
        text: text(findings.iter().flat_map(Finding::lines)),
        json: json!({"documents": findings.iter().map(Finding::to_json).collect::<Vec<_>>(), "valid": all_valid}),
        faults: findings.iter().filter_map(Finding::fault).collect(),
        verdict: if all_valid { Verdict::Converged } else { Verdict::Failed },
    }
}

fn read(path: &Path, policy: &Policy) -> Vec<Finding> {
    let is_stdin = path == Path::new("-");
    let file = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let text = if is_stdin { io::read_to_string(io::stdin().lock()) } else { std::fs::read_to_string(path) };
    match text {
        Ok(text) => findings(&file, &text, policy),
        Err(error) => {
            vec![Finding { place: file, outcome: Outcome::Unreadable(format!("failed to read: {error}")) }]
        }
    }
}

/// What is wrong with each document of `text`.
fn findings(file: &str, text: &str, policy: &Policy) -> Vec<Finding> {
    let whole = |fault: String| vec![Finding { place: file.to_owned(), outcome: Outcome::Unreadable(fault) }];
    let documents = match documents(text) {
        Ok(documents) => documents,
        Err(fault) => return whole(fault),
    };
    if documents.is_empty() {
        return whole("there is no document in it".to_owned());
    }
    let place = |index: usize| format!("{file}: document {}", index + 1);
    documents
        .iter()
        .enumerate()
        .flat_map(|(index, document)| check_document(&place(index), document, policy))
        .collect()
}

/// The documents as kubectl would read them: `yes` is true, `010` is eight, empty documents do not count.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! { with_snippet: false, legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| format!("failed to read as YAML: {error}"))
}

/// Checks a document, or each item of a v1 List.
fn check_document(place: &str, document: &Value, policy: &Policy) -> Vec<Finding> {
    match &document["items"] {
        Value::Array(items) if document["kind"] == "List" => {
            let place = |index: usize| format!("{place}, items[{index}]");
            items.iter().enumerate().map(|(index, item)| check_object(place(index), item, policy)).collect()
        }
        _ => vec![check_object(place.to_owned(), document, policy)],
    }
}

fn check_object(place: String, object: &Value, policy: &Policy) -> Finding {
    let outcome = match Draft::deserialize(object) {
        Err(error) => Outcome::Unreadable(format!("failed to decode: {error}")),
        Ok(draft) => match stranger(&draft) {
            Some(fault) => Outcome::Stranger(fault),
            None => Outcome::Checked {
                name: draft.metadata.name.as_text().map(ToOwned::to_owned),
                report: policy.check(&draft),
            },
        },
    };
    Finding { place, outcome }
}

/// Why `draft` is no WebService, if it is none.
fn stranger(draft: &Draft<'_>) -> Option<String> {
    let told = |field: &str, found: &Json<'_>| match found {
        Json::Text(text) => format!("{field} is {text}"),
        Json::Absent => format!("{field} is missing"),
        other => format!("{field} is {other}"),
    };
    if draft.kind.as_text() != Some(KIND) {
        return Some(told("kind", &draft.kind));
    }
    let version = &draft.api_version;
    (version.as_text() != Some(API_VERSION))
        .then(|| format!("{}, not {API_VERSION}", told("apiVersion", version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validated(text: &str) -> Answer {
        answer(&findings("shop.yaml", text, &Policy::default()))
    }

    const CHECKOUT: &str = "{apiVersion: apps.labhub.io/v1, kind: WebService, metadata: {name: checkout}, spec: {image: 'nginx:1.27'}}";

    #[test]
    fn all_violations_are_told_at_once_each_with_its_path_and_warnings_apart() {
        let text = "
apiVersion: apps.labhub.io/v1
kind: WebService
metadata: {name: checkout}
spec:
  replicas: -1
  tier: Dev_1
  dependsOn: [{name: search}, {name: checkout}]
  replica: 3
";
        let answer = validated(text);
        insta::assert_snapshot!(answer.text, @r#"
        shop.yaml: document 1, WebService checkout: not valid
          spec.image: an image is required; write one such as nginx:1.27
          spec.replicas: must be a whole number from 0 to 2147483647, found -1
          spec.tier: must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends, found "Dev_1"
          spec.dependsOn[1].name: "checkout" is this WebService itself; remove the entry
          warning: spec.replica: is no field of a WebService; did you mean replicas?
        "#);
        assert_eq!(answer.verdict, Verdict::Failed);
        assert_eq!(answer.json["documents"][0]["violations"][0]["cause"], "FieldValueRequired");
    }

    #[test]
    fn a_document_that_is_something_else_is_named_and_the_others_are_checked_all_the_same() {
        let answer = validated(&format!(
            "kind: Deployment\n---\n{CHECKOUT}\n---\nkind: WebService\napiVersion: v1\n--- just a text\n"
        ));
        assert_eq!(
            answer.faults,
            [
                "shop.yaml: document 1 is no WebService: kind is Deployment",
                "shop.yaml: document 3 is no WebService: apiVersion is v1, not apps.labhub.io/v1",
                "shop.yaml: document 4 is no WebService: kind is missing",
            ]
        );
        assert_eq!(answer.text, "shop.yaml: document 2, WebService checkout: valid\n");
        assert_eq!(answer.verdict, Verdict::Failed);
    }

    #[test]
    fn warnings_alone_do_not_fail() {
        let answer = validated(&CHECKOUT.replace("nginx:1.27", "nginx"));
        assert!(answer.text.contains("  warning: spec.image"), "{}", answer.text);
        assert_eq!(answer.verdict, Verdict::Converged);
    }

    #[test]
    fn json_is_read_too() {
        let json = r#"{"apiVersion": "apps.labhub.io/v1", "kind": "WebService", "metadata": {"name": "a"}, "spec": {"image": "a:1"}}"#;
        assert_eq!(validated(json).verdict, Verdict::Converged);
    }

    #[test]
    fn the_items_of_a_list_are_checked_one_by_one() {
        let answer =
            validated(&format!("{{apiVersion: v1, kind: List, items: [{CHECKOUT}, {{kind: Pod}}]}}"));
        assert_eq!(answer.text, "shop.yaml: document 1, items[0], WebService checkout: valid\n");
        assert_eq!(answer.faults, ["shop.yaml: document 1, items[1] is no WebService: kind is Pod"]);
    }

    #[test]
    fn values_are_read_as_kubectl_reads_them() {
        let spec = |spec: &str| validated(&CHECKOUT.replace("{image: 'nginx:1.27'}", spec)).verdict;
        assert_eq!(spec("{image: 'nginx:1.27', suspend: yes, replicas: 010}"), Verdict::Converged);
        assert_eq!(spec("{image: 'nginx:1.27', suspend: 'yes'}"), Verdict::Failed);
        assert_eq!(spec("{image: 'nginx:1.27', tier: no}"), Verdict::Failed);
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_line() {
        let answer = validated("spec:\n  image: [\n");
        assert_eq!(answer.faults.len(), 1);
        assert!(answer.faults[0].starts_with("shop.yaml: failed to read as YAML: "), "{}", answer.faults[0]);
        assert!(
            answer.faults[0].contains("line ") && !answer.faults[0].contains('\n'),
            "{}",
            answer.faults[0]
        );
    }

    #[test]
    fn a_file_with_nothing_in_it_is_no_success() {
        assert_eq!(validated("# later\n---\n").faults, ["shop.yaml: there is no document in it"]);
    }
}
