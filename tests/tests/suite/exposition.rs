//! What the linter of Prometheus says of the metrics of both processes.

use std::io::Write;
use std::process::{Command, Stdio};

use webservice_tests::bed::{TestNamespace, webservice};
use webservice_tests::cluster::assets;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::PROMTOOL;

/// The findings, one a line.
async fn promtool(exposition: &str) -> String {
    let mut command = Command::new(assets::program(&PROMTOOL, &Silent).await.unwrap());
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut linter = command.spawn().unwrap();
    linter.stdin.take().unwrap().write_all(exposition.as_bytes()).unwrap();
    let output = linter.wait_with_output().unwrap();
    let findings = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.success(), findings.is_empty(), "{findings}");
    findings
}

#[tokio::test]
async fn promtool_finds_nothing_in_the_metrics_of_both_processes() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.controller.settle(&ns).await;
    for text in [ns.controller.exposition().await, ns.webhook.exposition().await] {
        assert!(text.contains("# TYPE "), "{text}");
        assert_eq!(promtool(&text).await, "", "{text}");
    }
    assert!(promtool("# TYPE requests counter\nrequests 1\n").await.contains("_total"), "it finds nothing");
}
