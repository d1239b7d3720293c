use serde_json::{Value, json};

use super::*;
use crate::samples::{
    caches, checkout, condition, deleted, reported, seen, seen_among, webservice, with_child, with_map,
};

fn explained(seen: &Observation, others: impl IntoIterator<Item = Value>) -> Answer {
    answer(&Case::new(seen, &caches(others)))
}

fn in_step(webservice: Value) -> Observation {
    with_child(webservice, json!({"image": "nginx:1.27", "replicas": "3", "tier": "dev"}))
}

fn ready(webservice: Value) -> Value {
    reported(webservice, "True", "Reconciled", "ConfigMap checkout-desired matches the spec")
}

#[test]
fn of_a_ready_one_there_is_nothing_to_do() {
    insta::assert_snapshot!(explained(&in_step(ready(checkout())), []).text, @r"
    WebService shop/checkout is Ready.

    Why:
      - The status says Reconciled: ConfigMap checkout-desired matches the spec.
    ");
}

#[test]
fn one_that_no_controller_has_looked_at_is_told_apart_from_one_that_fails() {
    insta::assert_snapshot!(explained(&seen(checkout()), []).text, @r"
    WebService shop/checkout is not Ready: no controller has looked at it.

    Why:
      - A pass would now create configmap/checkout-desired: ConfigMap checkout-desired does not exist yet.

    Next:
      - If this is but a moment old, ask again; otherwise see whether the controller runs and serves namespace shop.
      - Or make its pass yourself: kubectl webservice reconcile checkout -n shop
    ");
}

#[test]
fn a_status_that_lags_behind_the_spec_is_not_believed() {
    let mut changed = ready(checkout());
    changed["metadata"]["generation"] = json!(2);
    changed["spec"]["image"] = json!("nginx:1.28");
    insta::assert_snapshot!(explained(&in_step(changed), []).text, @r#"
    WebService shop/checkout says Ready, but that is out of date.

    Why:
      - The status speaks of generation 1; the spec is at generation 2.
      - The status says Reconciled: ConfigMap checkout-desired matches the spec.
      - A pass would now update configmap/checkout-desired: data.image is "nginx:1.27", should be "nginx:1.28".

    Next:
      - If this is but a moment old, ask again; otherwise see whether the controller runs and serves namespace shop.
      - Or make its pass yourself: kubectl webservice reconcile checkout -n shop
    "#);
}

#[test]
fn each_dependency_is_told_with_its_own_reason() {
    let orders = webservice(
        "orders",
        json!({"image": "a:1", "dependsOn": [{"name": "search"}, {"name": "stock"}, {"name": "checkout"}]}),
    );
    let message = "Waiting for dependencies: search is not Ready, stock does not exist";
    let orders = reported(orders, "False", "DependencyNotReady", message);
    let search = reported(
        webservice("search", json!({"image": "b:1"})),
        "False",
        "ChildConflict",
        "ConfigMap search-desired belongs to WebService x",
    );
    let others = || [search.clone(), ready(checkout())];
    insta::assert_snapshot!(explained(&seen_among(others(), orders), others()).text, @r"
    WebService shop/orders is not Ready: DependencyNotReady.

    Why:
      - The status says DependencyNotReady: Waiting for dependencies: search is not Ready, stock does not exist.
      - search is not Ready: ChildConflict: ConfigMap search-desired belongs to WebService x.
      - There is no WebService stock in namespace shop.

    Next:
      - Look at what it waits for: kubectl webservice explain search -n shop
      - Create WebService stock, or take it out of spec.dependsOn.
    ");
}

#[test]
fn of_a_conflict_the_owner_is_named() {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true});
    let seen = with_map(checkout(), json!({"ownerReferences": [owner]}), json!({}));
    let answer = explained(&seen, []);
    assert!(answer.text.contains("is controlled by Deployment/web"), "{}", answer.text);
    assert!(
        answer.json["next"][0].as_str().unwrap().contains("kubectl get configmap checkout-desired -n shop")
    );
}

#[test]
fn of_a_deletion_the_finalizers_are_named_and_who_must_act() {
    let mut deleted = deleted(ready(checkout()));
    deleted["metadata"]["finalizers"] = json!(["example.com/audit"]);
    insta::assert_snapshot!(explained(&seen(deleted), []).text, @r"
    WebService shop/checkout is being deleted.

    Why:
      - The status says Reconciled: ConfigMap checkout-desired matches the spec.
      - Seen from here: Cleaned up; finalizers of others hold the WebService.
      - These finalizers hold it: example.com/audit.

    Next:
      - Our part is done; ask whoever set the other finalizers: example.com/audit
    ");
}

#[test]
fn what_the_api_server_refuses_to_the_controller_comes_before_the_controller_itself() {
    let mut failing = reported(checkout(), "False", "Forbidden", "configmaps is forbidden");
    failing["status"]["conditions"].as_array_mut().unwrap().push(condition(
        "Reconciling",
        "True",
        "Forbidden",
        "configmaps is forbidden",
    ));
    let answer = explained(&seen(failing), []);
    assert_eq!(
        answer.json["next"],
        json!(["Settle what the API server answers; the controller tries again by itself."])
    );
    assert_eq!(answer.text.matches("configmaps is forbidden").count(), 1);
}

#[test]
fn a_first_failure_is_told_although_ready_still_waits_for_the_controller() {
    let mut failing = checkout();
    let failure = condition("Reconciling", "True", "Forbidden", "exceeded quota");
    failing["status"]["conditions"].as_array_mut().unwrap().push(failure);
    let answer = explained(&seen(failing), []);
    assert_eq!(answer.json["headline"], "WebService shop/checkout is not Ready: Forbidden.");
    assert_eq!(answer.json["why"][0], "The status says Forbidden: exceeded quota.");
}

#[test]
fn one_that_is_suspended_is_let_go_on_by_a_patch() {
    let mut suspended = reported(checkout(), "True", "Suspended", "Reconciling is paused by spec.suspend");
    suspended["spec"]["suspend"] = json!(true);
    let answer = explained(&in_step(suspended), []);
    assert!(answer.json["next"][0].as_str().unwrap().contains(r#"{"spec":{"suspend":false}}"#));
}
