use serde_json::json;

use super::*;
use crate::scene::{Scene, checkout, ready, webservice};

fn decided(scene: &Scene) -> Decision {
    decide(&scene.observation())
}

fn waits_for(name: &str) -> Scene {
    checkout().owner(|owner| owner["spec"]["dependsOn"] = json!([{"name": name}]))
}

#[test]
fn a_missing_child_is_created() {
    let decision = decided(&checkout());
    assert_eq!((decision.action, decision.target.as_str()), (Action::Create, "configmap/checkout-desired"));
}

#[test]
fn a_child_that_matches_is_left_alone() {
    let decision = decided(&checkout().with_child());
    assert_eq!((decision.action, decision.word), (Action::Noop, Reason::Reconciled));
}

#[test]
fn a_child_edited_by_hand_is_put_back() {
    let decision = decided(&checkout().child(|child| child["data"]["image"] = json!("nginx:1.26")));
    assert_eq!(decision.action, Action::Update { fields: vec!["data.image"] });
    assert_eq!(decision.reason, r#"data.image is "nginx:1.26", should be "nginx:1.27""#);
}

#[test]
fn all_differences_are_put_back_at_once() {
    let decision = decided(&checkout().child(|child| {
        child["data"] = json!({"image": "nginx:1.27"});
        child["metadata"]["labels"]["app.kubernetes.io/name"] = json!("other");
    }));
    assert_eq!(
        decision.action,
        Action::Update { fields: vec!["data.replicas", "data.tier", "metadata.labels"] }
    );
}

#[test]
fn keys_labels_and_owners_of_others_are_no_drift() {
    let decision = decided(&checkout().child(|child| {
        child["data"]["note"] = json!("x");
        child["metadata"]["labels"]["team"] = json!("shop");
        child["metadata"]["ownerReferences"]
            .as_array_mut()
            .unwrap()
            .push(json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}));
    }));
    assert_eq!(decision.action, Action::Noop);
}

#[test]
fn an_immutable_child_that_differs_is_replaced() {
    let decision = decided(&checkout().child(|child| {
        child["immutable"] = json!(true);
        child["data"]["tier"] = json!("prod");
    }));
    assert_eq!(decision.action, Action::Replace);
}

#[test]
fn a_child_whose_binary_data_holds_a_key_of_ours_is_replaced() {
    let decision = decided(&checkout().child(|child| {
        child["binaryData"] = json!({"image": "bmdpbng="});
        child["data"].as_object_mut().unwrap().remove("image");
    }));
    assert_eq!(decision.action, Action::Replace);
}

#[test]
fn an_immutable_child_whose_label_was_changed_is_updated() {
    let decision = decided(&checkout().child(|child| {
        child["immutable"] = json!(true);
        child["metadata"]["labels"]["app.kubernetes.io/name"] = json!("other");
    }));
    assert_eq!(decision.action, Action::Update { fields: vec!["metadata.labels"] });
}

#[test]
fn a_map_of_somebody_else_is_never_touched() {
    let foreign_owner =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": true}]);
    let other_webservice = json!([{"apiVersion": "apps.labhub.io/v1", "kind": "WebService", "name": "billing", "uid": "u", "controller": true}]);
    for (owners, labels) in [
        (
            foreign_owner,
            json!({"app.kubernetes.io/managed-by": "webservice-controller", "app.kubernetes.io/name": "checkout"}),
        ),
        (
            other_webservice,
            json!({"app.kubernetes.io/managed-by": "webservice-controller", "app.kubernetes.io/name": "checkout"}),
        ),
        (json!([]), json!({})),
        (json!([]), json!({"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "checkout"})),
    ] {
        let scene = checkout().child(|child| {
            child["metadata"]["ownerReferences"] = owners;
            child["metadata"]["labels"] = labels;
        });
        let decision = decided(&scene);
        assert_eq!(
            (&decision.action, decision.word),
            (&Action::Refuse { after: Some(BACKSTOP) }, Reason::ChildConflict)
        );
        assert_eq!(
            decided(&scene.deleting()).action,
            Action::Release,
            "a foreign map outlives the WebService"
        );
    }
}

#[test]
fn a_child_without_owner_is_adopted() {
    assert_eq!(
        decided(&checkout().child(|child| child["metadata"]["ownerReferences"] = json!([]))).action,
        Action::Adopt
    );
}

#[test]
fn a_child_of_a_dead_webservice_of_the_same_name_is_adopted() {
    let decision = decided(
        &checkout()
            .child(|child| child["metadata"]["ownerReferences"][0]["uid"] = json!("uid-of-the-last-one")),
    );
    assert_eq!(decision.action, Action::Adopt);
}

#[test]
fn a_child_on_its_way_out_is_waited_for() {
    let decision = decided(
        &checkout().child(|child| child["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
    );
    assert_eq!(
        (decision.action, decision.word),
        (Action::Requeue { after: BACKSTOP }, Reason::ChildTerminating)
    );
}

#[test]
fn without_its_dependency_a_child_is_not_created() {
    let decision = decided(&waits_for("search"));
    assert_eq!(
        (&decision.action, decision.word),
        (&Action::Requeue { after: BACKSTOP }, Reason::DependencyNotReady)
    );
    assert_eq!(decision.reason, "Waiting for dependencies: search does not exist");
    assert_eq!(decision.to_json()["is_error"], json!(false));
}

#[test]
fn a_ready_dependency_opens_the_gate_whatever_its_generation() {
    let scene = waits_for("search").beside(ready(webservice("search"), "True", "Reconciled"));
    assert_eq!(decided(&scene).action, Action::Create);
}

#[test]
fn a_dependency_that_is_not_ready_keeps_it_closed() {
    let scene = waits_for("search").beside(ready(webservice("search"), "False", "ApiError"));
    assert_eq!(decided(&scene).reason, "Waiting for dependencies: search is not Ready");
}

#[test]
fn an_existing_child_is_repaired_while_dependencies_are_missing() {
    let scene = waits_for("search").child(|child| child["data"]["tier"] = json!("prod"));
    assert_eq!(decided(&scene).action, Action::Update { fields: vec!["data.tier"] });
    assert_eq!(decided(&waits_for("search").with_child()).word, Reason::DependencyNotReady);
}

#[test]
fn a_cycle_is_named() {
    let mut search = webservice("search");
    search["spec"]["dependsOn"] = json!([{"name": "checkout"}]);
    let decision = decided(&waits_for("search").beside(search));
    assert_eq!((&decision.action, decision.word), (&Action::Refuse { after: None }, Reason::DependencyCycle));
    assert_eq!(decision.reason, "spec.dependsOn leads back to itself: checkout → search → checkout");
}

#[test]
fn waiting_for_a_cycle_is_no_cycle() {
    let mut others = ["search", "billing"].map(webservice);
    others[0]["spec"]["dependsOn"] = json!([{"name": "billing"}]);
    others[1]["spec"]["dependsOn"] = json!([{"name": "search"}]);
    let [search, billing] = others;
    assert_eq!(decided(&waits_for("search").beside(search).beside(billing)).word, Reason::DependencyNotReady);
}

#[test]
fn of_a_long_cycle_the_beginning_and_the_end_are_named() {
    let link = |from: &str, to: &str| {
        let mut link = webservice(from);
        link["spec"]["dependsOn"] = json!([{"name": to}]);
        link
    };
    let mut scene = waits_for("s0");
    for i in 0..600 {
        let next = if i < 599 { format!("s{}", i + 1) } else { "checkout".into() };
        scene = scene.beside(link(&format!("s{i}"), &next));
    }
    let reason = decided(&scene).reason;
    assert_eq!(reason, "spec.dependsOn leads back to itself: checkout → s0 → s1 → s2 → s3 → … → checkout");
}

#[test]
fn an_invalid_spec_is_refused_and_its_child_left_alone() {
    let decision = decided(&checkout().with_child().owner(|owner| owner["spec"]["replicas"] = json!("two")));
    assert_eq!((decision.action, decision.word), (Action::Refuse { after: None }, Reason::InvalidSpec));
    assert!(decision.reason.contains("spec.replicas"), "{}", decision.reason);
}

#[test]
fn a_suspended_webservice_is_left_alone() {
    let scene = checkout().owner(|owner| owner["spec"]["suspend"] = json!(true));
    assert_eq!((decided(&scene).action, decided(&scene).word), (Action::Noop, Reason::Suspended));
}

#[test]
fn deletion_takes_the_child_first() {
    assert_eq!(decided(&checkout().with_child().deleting()).action, Action::Cleanup);
}

#[test]
fn deletion_works_while_suspended_or_invalid() {
    for (field, value) in [("suspend", json!(true)), ("image", json!(null))] {
        let scene = checkout().with_child().deleting().owner(|owner| owner["spec"][field] = value);
        assert_eq!(decided(&scene).action, Action::Cleanup);
    }
}

#[test]
fn a_child_that_is_merely_not_cached_is_not_gone() {
    assert_eq!(decided(&checkout().deleting()).action, Action::Cleanup);
}

#[test]
fn the_finalizer_leaves_once_the_child_is_confirmed_gone() {
    let decision = decided(&checkout().deleting().child_confirmed_gone());
    assert_eq!((decision.action, decision.target.as_str()), (Action::Release, "webservice/checkout"));
}

#[test]
fn a_child_held_by_a_finalizer_of_others_holds_the_webservice() {
    let scene = checkout()
        .deleting()
        .child(|child| child["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(
        (decided(&scene).action, decided(&scene).word),
        (Action::Requeue { after: BACKSTOP }, Reason::Deleting)
    );
}

#[test]
fn an_orphaned_child_lives_on() {
    let orphaned = |child: &mut serde_json::Value| child["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(decided(&checkout().deleting().child(orphaned)).action, Action::Release);
}

#[test]
fn while_the_collector_orphans_the_child_it_is_left_alone() {
    let scene = checkout().deleting().with_child().owner(|owner| {
        owner["metadata"]["finalizers"].as_array_mut().unwrap().push(json!("orphan"));
    });
    assert!(decided(&scene).action.rests());
}

#[test]
fn without_our_finalizer_a_dying_webservice_is_cleaned_up_and_nothing_is_added() {
    let foreign = |owner: &mut serde_json::Value| owner["metadata"]["finalizers"] = json!(["x.io/hold"]);
    assert_eq!(decided(&checkout().deleting().with_child().owner(foreign)).action, Action::Cleanup);
    assert_eq!(decided(&checkout().deleting().child_confirmed_gone().owner(foreign)).action, Action::Noop);
}

#[test]
fn deciding_is_stable() {
    for scene in [checkout(), checkout().with_child(), checkout().deleting()] {
        assert_eq!(decided(&scene), decided(&scene));
    }
}
