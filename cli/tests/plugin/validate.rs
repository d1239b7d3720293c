use serde_json::Value;

use crate::{finish, plugin, run};

const VALID: &str = "
apiVersion: apps.labhub.io/v1
kind: WebService
metadata: {name: checkout}
spec: {image: 'nginx:1.27'}
";

#[test]
fn a_valid_file_is_success_and_says_so() {
    let checked = finish(&mut plugin(&["validate", "-f", "-"]), VALID);
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""));
    assert_eq!(checked.stdout, "standard input: document 1, WebService checkout: valid\n");
}

#[test]
fn violations_are_failure_and_stand_in_the_answer_with_their_paths() {
    let text = VALID.replace("image: 'nginx:1.27'", "replicas: -1");
    let checked = finish(&mut plugin(&["validate", "-f", "-", "-o", "json"]), &text);
    assert_eq!((checked.code, checked.stderr.as_str()), (1, ""));
    let json: Value = serde_json::from_str(&checked.stdout).unwrap();
    let violations = json["documents"][0]["violations"].as_array().unwrap();
    let fields: Vec<_> = violations.iter().map(|violation| violation["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.image", "spec.replicas"]);
}

#[test]
fn a_document_that_is_no_webservice_is_one_sentence_on_stderr() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.yaml");
    std::fs::write(&path, format!("{VALID}---\nkind: Deployment\n")).unwrap();
    let path = path.to_str().unwrap();
    let checked = run(&["validate", "-f", path]);
    assert_eq!(checked.code, 1);
    assert_eq!(checked.stderr, format!("error: {path}: document 2 is no WebService: kind is Deployment\n"));
}

#[test]
fn a_file_that_cannot_be_read_does_not_keep_the_others_from_being_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (good, missing) = (directory.path().join("good.yaml"), directory.path().join("missing.yaml"));
    std::fs::write(&good, VALID).unwrap();
    let checked = run(&["validate", "-f", missing.to_str().unwrap(), good.to_str().unwrap()]);
    assert_eq!(checked.code, 1);
    assert!(checked.stderr.contains("missing.yaml: failed to read: No such file"), "{}", checked.stderr);
    assert!(checked.stdout.contains("WebService checkout: valid"), "{}", checked.stdout);
}

#[test]
fn the_answer_is_available_as_yaml() {
    let checked = finish(&mut plugin(&["validate", "-f", "-", "-o", "yaml"]), VALID);
    assert!(checked.stdout.contains("valid: true"), "{}", checked.stdout);
}

#[test]
fn a_policy_is_checked_as_the_webhook_checks_it() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.yaml");
    let validate =
        || finish(&mut plugin(&["validate", "-f", "-", "--policy", policy.to_str().unwrap()]), VALID);

    std::fs::write(&policy, "allowedTiers: [prod]").unwrap();
    let checked = validate();
    assert_eq!(checked.code, 1);
    assert!(checked.stdout.contains(r#"spec.tier: must be prod, found "dev""#), "{}", checked.stdout);

    std::fs::write(&policy, "allowedTier: [prod]").unwrap();
    let checked = validate();
    assert_eq!(checked.code, 1);
    let is_clear =
        checked.stderr.starts_with("error: failed to use policy ") && checked.stderr.contains("allowedTier");
    assert!(is_clear && checked.stderr.lines().count() == 1, "{}", checked.stderr);
}
