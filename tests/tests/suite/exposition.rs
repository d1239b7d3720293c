//! What the linter of Prometheus says of the metrics of both processes.

use tokio::process::Command;
use webservice_tests::bed::{TestNamespace, Tool, webservice};
use webservice_tests::cluster::assets;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::PROMTOOL;

/// The findings, one a line.
async fn promtool(exposition: &str) -> String {
    let program = assets::program(&PROMTOOL, &Silent).await.unwrap();
    let linter = Tool::new(Command::new(program)).args(["check", "metrics"]).input(exposition);
    let output = linter.await;
    let findings = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(output.code == Some(0), findings.is_empty(), "{findings}");
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
