//! What kube-score says of the chart in its most available form.

use std::fs;
use std::process::Command;

use webservice_tests::cluster::assets;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::KUBE_SCORE;

use crate::helm::Release;

/// Checks that do not fit, each with a reason.
const IGNORED: &[(&str, &str)] = &[
    ("container-image-pull-policy", "tags are not moved, and a node must start pods without the registry"),
    ("deployment-has-host-podantiaffinity", "topology spread does it, and better"),
];

#[tokio::test]
async fn kube_score_finds_nothing() {
    let text = Release::new()
        .values("values-ha.yaml")
        .set(&["networkPolicy.enabled=true"])
        // What runs once to its end needs no probe.
        .argument("--skip-tests")
        .text()
        .await;
    let directory = tempfile::tempdir().unwrap();
    let manifests = directory.path().join("manifests.yaml");
    fs::write(&manifests, text).unwrap();
    let mut command = Command::new(assets::program(&KUBE_SCORE, &Silent).await.unwrap());
    // No CPU limit: throttling would show as slow writes.
    command.args(["score", "--output-format=ci", "--exit-one-on-warning", "--ignore-container-cpu-limit"]);
    command.args(IGNORED.iter().map(|(check, _)| format!("--ignore-test={check}"))).arg(manifests);
    let output = command.output().unwrap();
    let findings = String::from_utf8(output.stdout).unwrap();
    let findings: Vec<_> =
        findings.lines().filter(|line| !line.starts_with("[OK]") && !line.starts_with("[SKIPPED]")).collect();
    assert!(output.status.success() && findings.is_empty(), "{}", findings.join("\n"));
}
