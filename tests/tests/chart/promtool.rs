//! What Prometheus makes of the alerts: that it takes them, and when they fire.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};
use webservice_tests::cluster::assets;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::PROMTOOL;

use crate::helm::{EVERYTHING, Release};

/// Series, and which alert they lead to.
const CASES: &str = include_str!("alerts.yaml");
/// What stands for the labels of the release's metrics, in the chart as in the cases.
const TARGET: &str = "[[ target ]]";
/// How long the series of a case last.
const END: &str = "3h";
/// Reaches back to their first value, which a range of their own length leaves out.
const WHOLE_CASE: &str = "4h";

/// Values by the name of their series.
type Series = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    ordinary: Series,
    alerts: BTreeMap<String, Case>,
}

/// When one alert fires.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What is not as in ordinary hours.
    series: Series,
    /// Beside its severity.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Those that are not literally the chart's.
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// Other alerts that fire, too.
    #[serde(default)]
    beside: Vec<String>,
}

/// What is evaluated once a minute, and what is expected of it in the end.
fn test(name: &str, series: &Series, alerts: &Value, samples: &Value) -> Value {
    let series: Vec<_> =
        series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect();
    json!({
        "name": name,
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": alerts,
        "promql_expr_test": samples,
    })
}

/// At no time fires any alert but those of a list.
fn silence(except: &[&str]) -> Value {
    let others = format!(r#"ALERTS{{alertstate="firing",alertname!~"{}"}}"#, except.join("|"));
    json!({"expr": format!("count_over_time({others}[{WHOLE_CASE}])"), "eval_time": END, "exp_samples": []})
}

impl Case {
    /// The alert is pending for exactly its time, and fires from then on.
    fn test(&self, rule: &Value, ordinary: &Series) -> Value {
        let name = rule["alert"].as_str().unwrap();
        let firing = json!({
            "eval_time": END,
            "alertname": name,
            "exp_alerts": [{
                "exp_labels": merged(&rule["labels"], &self.labels),
                "exp_annotations": merged(&rule["annotations"], &self.annotations),
            }],
        });
        let pending = format!(r#"ALERTS{{alertname="{name}",alertstate="pending"}}"#);
        let minutes = rule["for"].as_str().map(minutes);
        let pending = json!({
            "expr": format!("sum(count_over_time({pending}[{WHOLE_CASE}]))"),
            "eval_time": END,
            "exp_samples": minutes.map(|value| json!({"labels": "{}", "value": value})).as_slice(),
        });
        let mut series = ordinary.clone();
        series.extend(self.series.clone());
        let beside: Vec<&str> = self.beside.iter().map(String::as_str).chain([name]).collect();
        test(name, &series, &json!([firing]), &json!([pending, silence(&beside)]))
    }
}

/// The members of an object, some of them replaced and some added.
fn merged(object: &Value, by: &BTreeMap<String, String>) -> Value {
    let mut members = object.as_object().unwrap().clone();
    members.extend(by.iter().map(|(name, text)| (name.clone(), json!(text))));
    members.into()
}

/// A duration of Prometheus in one unit, minutes or hours.
fn minutes(duration: &str) -> u32 {
    let minutes = |number: &str, each: u32| number.parse::<u32>().unwrap() * each;
    match duration.strip_suffix('h') {
        Some(hours) => minutes(hours, 60),
        None => minutes(duration.strip_suffix('m').unwrap(), 1),
    }
}

async fn rules() -> Value {
    let manifests = Release::named("r", "ns").set(EVERYTHING).render().await;
    manifests.one("PrometheusRule", "")["spec"].clone()
}

/// Runs promtool on these files in a directory of its own, and gives what it says. It fails where promtool does.
async fn promtool(arguments: &[&str], files: &[(&str, &Value)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        // JSON is YAML.
        fs::write(directory.path().join(name), content.to_string()).unwrap();
    }
    let mut command = Command::new(assets::program(&PROMTOOL, &Silent).await.unwrap());
    let output = command.args(arguments).current_dir(directory.path()).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[tokio::test]
async fn prometheus_takes_every_alert() {
    let rules = rules().await;
    let count = rules["groups"][0]["rules"].as_array().unwrap().len();
    let said =
        promtool(&["check", "rules", "--lint=all", "--lint-fatal", "rules"], &[("rules", &rules)]).await;
    assert!(said.contains(&format!("SUCCESS: {count} rules found")), "{said}");
}

#[tokio::test]
async fn every_alert_fires_after_its_time_and_none_in_ordinary_hours() {
    let rules = rules().await;
    let alerts = rules["groups"][0]["rules"].as_array().unwrap();
    let target = r#"namespace="ns",job="r-webservice-operator-metrics""#;
    let cases: Cases = serde_saphyr::from_str(&CASES.replace(TARGET, target)).unwrap();
    let names: BTreeSet<&str> = alerts.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert_eq!(names, cases.alerts.keys().map(String::as_str).collect(), "each alert has one case");

    let ordinary = test("ordinary hours", &cases.ordinary, &json!([]), &json!([silence(&[])]));
    let broken =
        alerts.iter().map(|rule| cases.alerts[rule["alert"].as_str().unwrap()].test(rule, &cases.ordinary));
    let tests: Vec<Value> = std::iter::once(ordinary).chain(broken).collect();
    let tests = json!({"rule_files": ["rules"], "evaluation_interval": "1m", "tests": tests});
    promtool(&["test", "rules", "tests"], &[("rules", &rules), ("tests", &tests)]).await;
}
