use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use webservice_tests::cargo::root;

use crate::helm::{EVERYTHING, Release};

/// Metrics that neither process makes: Prometheus does.
const FOREIGN: [&str; 1] = ["up"];

async fn alerts() -> Vec<Value> {
    let manifests = Release::named("r", "ns").set(EVERYTHING).render().await;
    let rules = &manifests.one("PrometheusRule", "")["spec"]["groups"][0]["rules"];
    rules.as_array().unwrap().clone()
}

#[tokio::test]
async fn every_alert_has_a_runbook_that_is_there() {
    let alerts = alerts().await;
    assert!(alerts.len() > 10);
    for alert in alerts {
        let name = alert["alert"].as_str().unwrap();
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        assert!(url.starts_with("https://") && url.ends_with(&format!("/docs/runbooks/{name}.md")), "{url}");
        let runbook = fs::read_to_string(root().join("docs/runbooks").join(format!("{name}.md"))).unwrap();
        assert!(runbook.starts_with(&format!("# {name}\n")) && runbook.contains("## Do"), "{name}");
    }
}

#[tokio::test]
async fn every_alert_is_about_this_release_alone() {
    for alert in alerts().await {
        let expression = alert["expr"].as_str().unwrap();
        let selectors: Vec<_> = expression.split('{').skip(1).collect();
        let ours = r#"namespace="ns",job="r-webservice-operator-metrics""#;
        assert!(
            !selectors.is_empty() && selectors.iter().all(|selector| selector.starts_with(ours)),
            "{expression}"
        );
    }
}

/// All files below a directory, in one.
fn sources(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| if path.is_dir() { sources(&path) } else { fs::read_to_string(path).unwrap() };
    entries.map(text).collect()
}

/// The words before a `{` in an expression of `PromQL`.
fn metrics(expression: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before: Vec<_> = expression.split('{').collect();
    let names = before[..before.len() - 1].iter();
    names.map(|text| &text[text.rfind(|c| !is_name(c)).map_or(0, |at| at + 1)..]).collect()
}

#[tokio::test]
async fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let sources: String =
        ["controller/src", "webhook/src", "ops/src"].map(|crate_| sources(&root().join(crate_))).concat();
    let dashboard =
        fs::read_to_string(root().join("charts/webservice-operator/files/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    let asked: Vec<Value> = targets.chain(alerts().await).collect();
    let asked: BTreeSet<&str> =
        asked.iter().flat_map(|query| metrics(query["expr"].as_str().unwrap())).collect();
    assert!(asked.len() > 15, "{asked:?}");
    for metric in asked.iter().filter(|metric| !FOREIGN.contains(metric)) {
        let base = metric.trim_end_matches("_total").trim_end_matches("_bucket");
        assert!(sources.contains(&format!("\"{base}\"")), "{metric}");
    }
}

#[tokio::test]
async fn broken_pods_are_scraped_too() {
    let manifests = Release::new().render().await;
    assert_eq!(manifests.one("Service", "-metrics")["spec"]["publishNotReadyAddresses"], true);
}
