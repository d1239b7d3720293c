use serde_json::{Value, json};

use super::*;
use crate::decide::decide;
use crate::scene::{Scene, checkout, ready};

fn told(scene: &Scene) -> WebServiceStatus {
    let seen = scene.observation();
    status(&seen, &decide(&seen))
}

/// The conditions as `Type=Status/Reason`.
fn words(status: &WebServiceStatus) -> Vec<String> {
    status.conditions.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect()
}

fn was_ready(owner: &mut Value) {
    *owner = ready(owner.take(), "True", "Reconciled");
}

fn unavailable() -> Failure {
    Failure::Unavailable { what: "create configmap", message: "connection refused".into() }
}

#[test]
fn a_child_in_step_makes_ready() {
    let status = told(&checkout().with_child());
    assert_eq!(words(&status), ["Ready=True/Reconciled"]);
    assert_eq!((status.replicas, status.observed_generation), (Some(3), Some(2)));
}

#[test]
fn waiting_for_a_dependency_is_reconciling_and_not_ready() {
    let scene = checkout().owner(|owner| owner["spec"]["dependsOn"] = json!([{"name": "search"}]));
    let status = told(&scene);
    assert_eq!(words(&status), ["Ready=False/DependencyNotReady", "Reconciling=True/DependencyNotReady"]);
    assert_eq!(status.replicas, Some(0));
}

#[test]
fn what_only_a_person_can_settle_is_stalled() {
    let scene = checkout().owner(|owner| owner["spec"]["image"] = json!("not an image"));
    assert_eq!(words(&told(&scene)), ["Ready=False/InvalidSpec", "Stalled=True/InvalidSpec"]);
}

#[test]
fn suspended_says_whether_the_child_matches() {
    let suspend = |owner: &mut Value| owner["spec"]["suspend"] = json!(true);
    assert_eq!(
        words(&told(&checkout().with_child().owner(suspend))),
        ["Ready=True/Suspended", "Suspended=True/Suspended"]
    );
    assert_eq!(
        words(&told(&checkout().owner(suspend))),
        ["Ready=False/Suspended", "Suspended=True/Suspended"]
    );
}

#[test]
fn at_first_a_failure_leaves_ready_and_the_observed_generation_as_they_were() {
    let seen = checkout()
        .with_child()
        .owner(was_ready)
        .owner(|owner| owner["metadata"]["generation"] = json!(3))
        .observation();
    let status = failing_status(&seen, &unavailable(), Duration::from_secs(1)).unwrap();
    assert_eq!(words(&status), ["Ready=True/Reconciled", "Reconciling=True/ApiError"]);
    assert_eq!(status.observed_generation, Some(2));
}

#[test]
fn a_failure_that_lasts_makes_not_ready() {
    let seen = checkout().with_child().owner(was_ready).observation();
    let status = failing_status(&seen, &unavailable(), FAILING_UNTIL_NOT_READY).unwrap();
    assert_eq!(words(&status), ["Ready=False/ApiError", "Reconciling=True/ApiError"]);
}

#[test]
fn what_only_a_person_lifts_makes_not_ready_at_once() {
    let seen = checkout().with_child().owner(was_ready).observation();
    let undone = Failure::Undone {
        target: "configmap/checkout-desired".into(),
        reason: "data.tier is missing".into(),
    };
    let status = failing_status(&seen, &undone, Duration::ZERO).unwrap();
    assert_eq!(words(&status), ["Ready=False/Contested", "Reconciling=True/Contested"]);
}

#[test]
fn the_replicas_of_a_map_of_somebody_else_are_not_ours() {
    let foreign = |child: &mut Value| {
        child["metadata"]["ownerReferences"] = json!([]);
        child["metadata"]["labels"] = json!({});
        child["data"]["replicas"] = json!("7");
    };
    assert_eq!(told(&checkout().child(foreign)).replicas, Some(0));
}

#[test]
fn a_number_of_replicas_that_cannot_be_one_counts_for_nothing() {
    let scene = checkout().child(|child| child["data"]["replicas"] = json!("-7"));
    assert_eq!(told(&scene.owner(|owner| owner["spec"]["suspend"] = json!(true))).replicas, Some(0));
}

#[test]
fn a_conflict_is_not_told() {
    assert_eq!(failing_status(&checkout().observation(), &Failure::Conflict, Duration::from_mins(1)), None);
}

#[test]
fn a_transition_is_a_change_of_state_or_reason() {
    let seen = checkout().with_child().owner(was_ready).observation();
    let ready = |state, reason| condition(READY, state, reason, "another message", 9);
    assert!(!is_transition(&ready(State::True, Reason::Reconciled), &seen.owner.status));
    assert!(is_transition(&ready(State::True, Reason::Suspended), &seen.owner.status));
    assert!(is_transition(&ready(State::False, Reason::Reconciled), &seen.owner.status));
}
