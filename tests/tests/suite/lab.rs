//! The reconcile lab: its eight steps, as acceptance of the whole product. `docs/tutorial.md` walks a person through the same.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_api::rbac;
use webservice_tests::bed::{
    Mark, SHORTEST_BACK_OFF, TestNamespace, WebServiceBuilder, assert_ever_longer, condition, eventually,
    is_ready, name, uid, version, webservice,
};

fn checkout() -> WebServiceBuilder {
    webservice("checkout").image("nginx:1.27").replicas(3).tier("dev")
}

/// The resourceVersions of `checkout` and its child: what no pass may change without a reason.
async fn versions(ns: &TestNamespace) -> [String; 2] {
    let owner = ns.webservices().get("checkout").await;
    let child = ns.config_maps().get("checkout-desired").await;
    [&owner, &child].map(|object| version(object).to_owned())
}

#[tokio::test]
async fn step_1_observe_shows_what_is_desired_beside_what_there_is() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    ns.webservices().create(checkout()).await;

    let seen = ns.plugin(["observe", "checkout", "-n", ns.name(), "-o", "json"]).await.succeeds().json();

    assert_eq!(seen["desired"], json!({"image": "nginx:1.27", "replicas": 3, "tier": "dev"}));
    assert_eq!(seen["actual"], Value::Null);
}

#[tokio::test]
async fn step_2_the_plan_is_to_create_the_child_before_anything_exists() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    ns.webservices().create(checkout()).await;

    let plan = ns.plugin(["plan", "checkout", "-o", "json"]).await.succeeds().json();

    assert_eq!((&plan["action"], &plan["target"]), (&json!("create"), &json!("configmap/checkout-desired")));
    assert!(plan["reason"].as_str().is_some_and(|reason| reason.contains(' ')), "no sentence: {plan}");
    assert_eq!(ns.config_maps().find("checkout-desired").await, None, "a plan changes nothing");
}

#[tokio::test]
async fn step_3_one_pass_makes_the_child() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let owner = ns.webservices().create(checkout()).await;

    ns.plugin(["reconcile", "checkout"]).await.succeeds();

    let child = ns.config_maps().get("checkout-desired").await;
    assert_eq!(child["data"], json!({"image": "nginx:1.27", "replicas": "3", "tier": "dev"}));
    assert_eq!(child["metadata"]["ownerReferences"][0]["uid"], uid(&owner));
    assert_eq!(child["metadata"]["labels"]["app.kubernetes.io/managed-by"], "webservice-controller");
}

#[tokio::test]
async fn step_4_further_passes_leave_child_and_owner_as_they_are() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    ns.webservices().create(checkout()).await;
    ns.plugin(["reconcile", "checkout"]).await.succeeds();
    let before = versions(&ns).await;

    let plan = ns.plugin(["plan", "checkout", "-o", "json"]).await.succeeds().json();
    assert_eq!(plan["action"], "noop");
    for pass in 2..=10 {
        ns.plugin(["reconcile", "checkout"]).await.succeeds();
        assert_eq!(versions(&ns).await, before, "after pass {pass}");
    }
}

#[tokio::test]
async fn step_4_a_restart_of_the_controller_leaves_child_and_owner_as_they_are() {
    let mut ns = TestNamespace::with_operator().await;
    ns.webservices().create(checkout()).await;
    ns.await_ready("checkout").await;
    ns.controller.settle(&ns).await;
    let before = versions(&ns).await;

    ns.restart_controller().await;
    ns.controller.settle(&ns).await;

    assert_eq!(versions(&ns).await, before);
}

#[tokio::test]
async fn step_5_the_report_is_written_once_and_through_the_status_subresource() {
    let ns = TestNamespace::with_operator().await;
    let mark = ns.mark().await;
    ns.webservices().create(checkout()).await;

    let owner = ns.await_ready("checkout").await;

    assert_eq!(owner["status"]["observedGeneration"], owner["metadata"]["generation"]);
    assert_eq!(owner["status"]["replicas"], owner["spec"]["replicas"]);
    let expected = ["create configmaps checkout-desired", "patch webservices/status checkout"];
    assert_eq!(ns.writes_since(&mark).await, expected, "the report must not lead to a second one");
}

#[tokio::test]
async fn step_6_waiting_for_a_dependency_is_a_requeue_and_no_error() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(checkout().depends_on(["billing"])).await;
    let waiting = ns.await_reason("checkout", "DependencyNotReady").await;
    assert_eq!(condition(&waiting, "Ready")["status"], "False");

    let plan = ns.plugin(["plan", "checkout", "-o", "json"]).await.exits(3).json();

    assert_eq!((&plan["action"], &plan["is_error"]), (&json!("requeue"), &json!(false)));
    assert!(plan["after_seconds"].as_u64().is_some_and(|seconds| seconds > 0), "{plan}");
    assert_eq!(ns.controller.failed_passes().await, 0);
    let metrics = ns.controller.metrics().await;
    let ended_in_errors = metrics.count("controller_runtime_reconcile_total", &[("result", "error")]);
    assert_eq!(ended_in_errors, metrics.count("controller_runtime_reconcile_errors_total", &[]));
    assert_eq!(ns.controller.process().errors(), Vec::<Value>::new());
}

#[tokio::test]
async fn step_6_a_dependency_that_becomes_ready_wakes_who_waits_long_before_the_requeue() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(checkout().depends_on(["billing"])).await;
    ns.await_reason("checkout", "DependencyNotReady").await;
    let plan = ns.plugin(["plan", "checkout", "-o", "json"]).await.exits(3).json();
    let after = Duration::from_secs(plan["after_seconds"].as_u64().unwrap());

    let asked = Instant::now();
    ns.webservices().create(webservice("billing")).await;
    ns.await_ready("checkout").await;

    assert!(
        asked.elapsed() < after / 4,
        "it took {:?}, almost the {after:?} of the requeue",
        asked.elapsed()
    );
}

/// The controller's rights, but of all ConfigMaps it may change that of `other` only.
fn rights_to_change_none_but_other() -> Vec<PolicyRule> {
    let mut rules = rbac::controller();
    for rule in &mut rules {
        if rule.resources == Some(vec!["configmaps".into()]) {
            rule.verbs.retain(|verb| verb != "patch");
        }
    }
    rules.push(PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".into()]),
        resource_names: Some(vec!["other-desired".into()]),
        verbs: vec!["patch".into()],
        ..PolicyRule::default()
    });
    rules
}

/// When the refused attempts since `mark` to change the child of `checkout` arrived.
async fn attempts(ns: &TestNamespace, mark: &Mark) -> Vec<Timestamp> {
    let calls = ns.calls_since(mark).await;
    let refused = calls.all().iter().filter(|call| call.name == "checkout-desired" && call.code == 403);
    refused.map(|call| call.received).collect()
}

/// Waits for so many refused attempts.
async fn await_attempts(ns: &TestNamespace, mark: &Mark, count: usize) -> Vec<Timestamp> {
    eventually(&format!("{count} attempts are refused"), async || {
        let attempts = attempts(ns, mark).await;
        if attempts.len() >= count { Ok(attempts) } else { Err(format!("{attempts:?}")) }
    })
    .await
}

#[tokio::test]
async fn step_6_a_real_failure_backs_off_exponentially_and_lets_others_pass() {
    let ns = TestNamespace::with_operator().await;
    for service in [checkout(), webservice("other")] {
        ns.webservices().create(service).await;
    }
    ns.await_ready("checkout").await;
    ns.await_ready("other").await;
    ns.grant(rights_to_change_none_but_other()).await;

    let mark = ns.mark().await;
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 5}})).await;
    let attempts = await_attempts(&ns, &mark, 10).await;
    ns.webservices().merge("other", json!({"spec": {"replicas": 7}})).await;
    ns.await_ready("other").await;

    let pauses = attempts.windows(2).map(|pair| pair[1].duration_since(pair[0]).unsigned_abs());
    assert_ever_longer(&pauses.collect::<Vec<_>>(), SHORTEST_BACK_OFF);
    let failing = ns.webservices().get("checkout").await;
    assert_eq!(condition(&failing, "Reconciling")["reason"], "Forbidden");
    assert!(ns.controller.metrics().await.count("controller_runtime_reconcile_errors_total", &[]) >= 9);
}

/// How often in a row the only key that fails has failed, as the controller tells.
fn failures(state: &Value) -> usize {
    let keys = &state["backOff"]["keys"];
    assert_eq!(keys.as_array().unwrap().len(), 1, "{state:#}");
    keys[0]["failures"].as_u64().unwrap().try_into().unwrap()
}

#[tokio::test]
async fn step_6_a_failure_heals_by_itself_and_the_next_one_is_a_first_one_again() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(checkout()).await;
    ns.await_ready("checkout").await;
    ns.grant(rights_to_change_none_but_other()).await;
    let mark = ns.mark().await;
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 5}})).await;
    await_attempts(&ns, &mark, 10).await;

    ns.grant(rbac::controller()).await;
    let healed = ns.await_ready("checkout").await;
    assert!(condition(&healed, "Reconciling").is_null(), "{healed:#}");

    ns.grant(rights_to_change_none_but_other()).await;
    let mark = ns.mark().await;
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 6}})).await;
    await_attempts(&ns, &mark, 3).await;
    let counted = failures(&ns.controller.state().await);
    let made = attempts(&ns, &mark).await.len();
    assert!((1..=made).contains(&counted), "it counts {counted} failures in a row after {made} attempts");
}

#[tokio::test]
async fn step_7_a_deletion_while_the_controller_is_away_is_finished_when_it_is_back() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let controller = ns.start_controller().await;
    ns.webservices().create(webservice("ephemeral")).await;
    ns.await_ready("ephemeral").await;
    controller.process().stop().await;

    ns.kubectl(["delete", "webservice", "ephemeral", "--wait=false"]).await.succeeds();
    let held = ns.webservices().get("ephemeral").await;
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(held["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(ns.config_maps().find("ephemeral-desired").await.is_some());

    let controller = ns.start_controller().await;
    ns.webservices().await_gone("ephemeral").await;
    assert_eq!(ns.config_maps().find("ephemeral-desired").await, None, "the child goes before its owner");
    let says_so = |line: &Value| line["message"].to_string().contains("cleanup configmap/ephemeral-desired");
    controller.process().await_line("says what it cleaned up", says_so).await;
}

#[tokio::test]
async fn step_7_the_plugin_cleans_up_too_and_doing_it_again_is_no_error() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    ns.webservices().create(webservice("ephemeral")).await;
    ns.plugin(["reconcile", "ephemeral"]).await.succeeds();
    ns.webservices().delete("ephemeral").await;

    let cleaned = ns.plugin(["reconcile", "ephemeral"]).await.succeeds();

    assert!(cleaned.stdout.contains("configmap/ephemeral-desired"), "{cleaned}");
    assert_eq!(ns.webservices().find("ephemeral").await, None);
    assert_eq!(ns.config_maps().find("ephemeral-desired").await, None);
    ns.plugin(["reconcile", "ephemeral"]).await.succeeds();
}

#[tokio::test]
async fn step_7_a_child_that_has_gone_already_does_not_hold_its_owner() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    ns.webservices().create(webservice("ephemeral")).await;
    ns.plugin(["reconcile", "ephemeral"]).await.succeeds();
    ns.webservices().delete("ephemeral").await;
    ns.config_maps().delete_with("ephemeral-desired", &DeleteParams::background()).await;

    let controller = ns.start_controller().await;

    ns.webservices().await_gone("ephemeral").await;
    assert_eq!(controller.failed_passes().await, 0);
}

#[tokio::test]
async fn step_8_one_round_brings_all_of_them_in_step() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    for service in [checkout(), webservice("billing"), webservice("search")] {
        ns.webservices().create(service).await;
    }
    ns.plugin(["reconcile", "checkout"]).await.succeeds();

    let round = ns.plugin(["reconcile", "--all", "-n", ns.name(), "-o", "json"]).await.succeeds().json();

    let items = round["items"].as_array().unwrap();
    let actions = |item: &Value| (item["name"].to_string(), item["action"].to_string());
    let expected = [("billing", "create"), ("checkout", "noop"), ("search", "create")];
    let expected = expected.map(|(name, action)| (format!("{name:?}"), format!("{action:?}")));
    assert_eq!(items.iter().map(actions).collect::<BTreeSet<_>>(), BTreeSet::from(expected));
    assert_eq!((&round["summary"]["noop"], &round["summary"]["create"]), (&json!(1), &json!(2)));
    assert_eq!(round["converged"], true);
    for owner in ns.webservices().list().await {
        assert!(is_ready(&owner), "{} is not: {owner:#}", name(&owner));
    }
}

#[tokio::test]
async fn step_8_a_second_round_finds_nothing_to_do() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    for service in [checkout(), webservice("billing"), webservice("search")] {
        ns.webservices().create(service).await;
    }
    ns.plugin(["reconcile", "--all"]).await.succeeds();

    let round = ns.plugin(["reconcile", "--all", "-o", "json"]).await.succeeds().json();

    assert_eq!((&round["summary"], &round["converged"]), (&json!({"noop": 3}), &json!(true)));
}
