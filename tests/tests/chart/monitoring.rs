use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use webservice_api::rbac::metrics_reader;
use webservice_tests::cargo::root;

use crate::helm::{EVERYTHING, Release, strings};

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

/// The words before a `{` in an expression of `PromQL`.
fn metrics(expression: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before: Vec<_> = expression.split('{').collect();
    let names = before[..before.len() - 1].iter();
    names.map(|text| &text[text.rfind(|c| !is_name(c)).map_or(0, |at| at + 1)..]).collect()
}

#[tokio::test]
async fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    // Generated from what both processes register.
    let page = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
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
        let family = metric.trim_end_matches("_bucket");
        assert!(page.contains(&format!("\n| `{family}` |")), "{metric}");
    }
}

#[tokio::test]
async fn broken_pods_are_scraped_too() {
    let manifests = Release::new().render().await;
    assert_eq!(manifests.one("Service", "-metrics")["spec"]["publishNotReadyAddresses"], true);
}

#[tokio::test]
async fn metrics_behind_rbac_are_scraped_with_a_token_and_those_of_the_webhook_without() {
    let release = Release::named("r", "ns").set(&["monitoring.serviceMonitor.enabled=true"]);
    let manifests = release.set(&["controller.metrics.auth=true"]).render().await;
    let endpoints = manifests.one("ServiceMonitor", "")["spec"]["endpoints"].as_array().unwrap().clone();
    let of = |component: &str| {
        let keeps = |rule: &Value| rule["action"] == "keep" && rule["regex"] == component;
        let is_for = |endpoint: &&Value| endpoint["relabelings"].as_array().unwrap().iter().any(keeps);
        endpoints.iter().find(is_for).unwrap()
    };
    assert_eq!((&of("webhook")["scheme"], of("webhook").get("bearerTokenFile")), (&Value::Null, None));
    assert_eq!(of("controller")["scheme"], "https");
    assert!(of("controller")["bearerTokenFile"].is_string());

    let pod = &manifests.one("Deployment", "-controller")["spec"]["template"]["spec"];
    assert!(strings(&pod["containers"][0]["args"]).contains(&"--metrics-auth"));
    let reader = manifests.one("ClusterRole", "-metrics-reader")["rules"].clone();
    assert_eq!(reader, json!(metrics_reader()));
}
