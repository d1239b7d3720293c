//! Whose a ConfigMap is: ours is put back, an orphan of ours is adopted, and anybody else's is never written.

use kube::api::DeleteParams;
use rustix::process::Signal;
use serde_json::{Value, json};
use webservice_api::constants::MAX_NAME;
use webservice_tests::bed::{
    OperatedNamespace, TestCluster, TestNamespace, condition, config_map, crds, uid, version, webservice,
};
use webservice_tests::cluster::Options;

const CHILD: &str = "checkout-desired";

/// A ConfigMap of the child's name that bears our labels.
fn labelled() -> Value {
    let mut map = config_map(CHILD);
    map["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "webservice-controller", "app.kubernetes.io/name": "checkout"});
    map
}

fn controlled_by(mut map: Value, kind: &str, api_version: &str, owner: &Value) -> Value {
    let name = &owner["metadata"]["name"];
    map["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid(owner), "controller": true}]);
    map
}

/// Whether the WebService `owner` alone controls `child`.
fn is_controlled_by(child: &Value, owner: &Value) -> bool {
    let owners = child["metadata"]["ownerReferences"].as_array();
    let mut controllers = owners.into_iter().flatten().filter(|owner| owner["controller"] == true);
    controllers.next().is_some_and(|controller| controller["uid"] == uid(owner))
        && controllers.next().is_none()
}

/// A namespace in which `checkout` is Ready and nothing is left to do, with `checkout` and its child.
async fn at_rest() -> (OperatedNamespace, Value, Value) {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    let owner = ns.await_ready("checkout").await;
    ns.controller.settle(&ns).await;
    let child = ns.config_maps().get(CHILD).await;
    (ns, owner, child)
}

/// Creates `foreign`, which is none of ours, and sees that it stays as it is.
async fn assert_untouched(ns: &OperatedNamespace, foreign: Value) {
    let before = ns.config_maps().create(foreign).await;
    ns.webservices().create(webservice("checkout")).await;

    let refused = ns.await_reason("checkout", "ChildConflict").await;

    assert_eq!(condition(&refused, "Ready")["status"], "False");
    assert_eq!(condition(&refused, "Stalled")["status"], "True");
    ns.controller.settle(ns).await;
    assert_eq!(ns.config_maps().get(CHILD).await, before);
}

#[tokio::test]
async fn whatever_the_length_of_its_name_only_the_own_child_comes_and_goes() {
    let ns = TestNamespace::with_operator().await;
    for number in 0..20 {
        ns.config_maps().create(config_map(&format!("unrelated-{number}"))).await;
    }
    let before = ns.config_maps().list().await;
    let [longest, longer] = [MAX_NAME, MAX_NAME + 1].map(|length| "a".repeat(length));
    assert_eq!(ns.webservices().rejects(webservice(&longer)).await.code, 422);
    ns.webservices().create(webservice(&longest)).await;
    ns.await_ready(&longest).await;
    ns.webservices().delete(&longest).await;
    ns.webservices().await_gone(&longest).await;
    assert_eq!(ns.config_maps().list().await, before);
}

/// `OpenShift` has this plugin on: who names an owner that blocks its deletion needs a right on the owner's finalizers.
#[tokio::test]
async fn an_api_server_that_guards_owners_takes_the_child() {
    let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let options = Options { api_server: vec![plugin.into()], ..Options::default() };
    let cluster = TestCluster::private_with(&options).await;
    cluster.install(crds::shipped()).await;
    let ns = OperatedNamespace::start(cluster.namespace().await).await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
}

#[tokio::test]
async fn a_foreign_map_of_the_childs_name_is_left_alone_and_told_of() {
    let ns = TestNamespace::with_operator().await;
    assert_untouched(&ns, config_map(CHILD)).await;
}

#[tokio::test]
async fn a_map_with_our_labels_that_another_kind_controls_is_left_alone() {
    let ns = TestNamespace::with_operator().await;
    let anchor = ns.config_maps().create(config_map("anchor")).await;
    assert_untouched(&ns, controlled_by(labelled(), "ConfigMap", "v1", &anchor)).await;
}

#[tokio::test]
async fn a_map_with_our_labels_that_belongs_to_another_webservice_is_left_alone() {
    let ns = TestNamespace::with_operator().await;
    let other = ns.webservices().create(webservice("other")).await;
    assert_untouched(&ns, controlled_by(labelled(), "WebService", "apps.labhub.io/v1", &other)).await;
}

#[tokio::test]
async fn a_foreign_map_survives_the_deletion_of_the_webservice() {
    let ns = TestNamespace::with_operator().await;
    assert_untouched(&ns, config_map(CHILD)).await;
    ns.webservices().delete("checkout").await;
    ns.webservices().await_gone("checkout").await;
    assert_eq!(ns.config_maps().get(CHILD).await["data"]["owner"], "somebody else");
}

#[tokio::test]
async fn a_conflict_that_was_settled_is_noticed_at_the_next_change() {
    let ns = TestNamespace::with_operator().await;
    assert_untouched(&ns, config_map(CHILD)).await;
    ns.config_maps().delete(CHILD).await;
    ns.webservices().merge("checkout", json!({"spec": {"replicas": 2}})).await;
    let owner = ns.await_ready("checkout").await;
    assert!(is_controlled_by(&ns.config_maps().get(CHILD).await, &owner));
}

#[tokio::test]
async fn a_map_with_our_labels_and_no_controller_is_adopted_as_it_is() {
    let ns = TestNamespace::with_operator().await;
    let orphan = ns.config_maps().create(labelled()).await;
    ns.webservices().create(webservice("checkout")).await;

    let owner = ns.await_ready("checkout").await;

    let child = ns.config_maps().get(CHILD).await;
    assert_eq!(uid(&child), uid(&orphan), "adopted, not made anew");
    assert!(is_controlled_by(&child, &owner), "{child:#}");
    assert_eq!(
        (&child["data"]["image"], &child["data"]["owner"]),
        (&json!("nginx:1.27"), &json!("somebody else"))
    );
}

#[tokio::test]
async fn a_child_whose_owner_reference_names_a_dead_uid_gets_the_living_one() {
    let (ns, owner, mut child) = at_rest().await;
    child["metadata"]["ownerReferences"][0]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    ns.config_maps()
        .merge(CHILD, json!({"metadata": {"ownerReferences": child["metadata"]["ownerReferences"]}}))
        .await;

    // The garbage collector may be faster than we are; either way the end is the same, and it is an end.
    ns.config_maps()
        .await_that(CHILD, "is controlled by the living", |child| is_controlled_by(child, &owner))
        .await;
    ns.controller.settle(&ns).await;
    assert!(is_controlled_by(&ns.config_maps().get(CHILD).await, &owner));
}

#[tokio::test]
async fn a_deletion_that_orphans_leaves_the_child_and_a_successor_adopts_it() {
    let (ns, _, child) = at_rest().await;
    ns.webservices().delete_with("checkout", &DeleteParams::orphan()).await;
    ns.webservices().await_gone("checkout").await;
    let orphan = ns.config_maps().get(CHILD).await;
    assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan:#}");

    ns.webservices().create(webservice("checkout")).await;
    let successor = ns.await_ready("checkout").await;

    let adopted = ns.config_maps().get(CHILD).await;
    assert_eq!(uid(&adopted), uid(&child));
    assert!(is_controlled_by(&adopted, &successor));
}

#[tokio::test]
async fn a_deletion_that_orphans_waits_for_a_garbage_collector_that_is_slow_to_release_the_child() {
    let cluster = TestCluster::private().await;
    cluster.install(crds::shipped()).await;
    let ns = cluster.namespace().await;
    let controller = ns.start_controller().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    let garbage_collector = cluster.daemon("kube-controller-manager");
    assert!(garbage_collector.signal(Signal::STOP).unwrap());

    ns.webservices().delete_with("checkout", &DeleteParams::orphan()).await;
    ns.await_reason("checkout", "Deleting").await;
    controller.settle(&ns).await;
    assert!(ns.config_maps().find(CHILD).await.is_some(), "deleted, but must be orphaned");

    assert!(garbage_collector.signal(Signal::CONT).unwrap());
    ns.webservices().await_gone("checkout").await;
    assert!(ns.config_maps().find(CHILD).await.is_some());
}

#[tokio::test]
async fn a_deletion_in_the_foreground_or_background_takes_the_child_along_and_never_makes_it_anew() {
    for params in [DeleteParams::foreground(), DeleteParams::background()] {
        let (ns, _, _) = at_rest().await;
        let mark = ns.mark().await;
        ns.webservices().delete_with("checkout", &params).await;
        ns.webservices().await_gone("checkout").await;
        ns.config_maps().await_gone(CHILD).await;
        let writes = ns.writes_since(&mark).await;
        assert!(!writes.iter().any(|write| write.starts_with("create")), "{params:?}: {writes:?}");
    }
}

#[tokio::test]
async fn a_label_that_was_removed_from_the_child_is_restored_on_it() {
    for label in ["app.kubernetes.io/managed-by-", "app.kubernetes.io/name-", "app.kubernetes.io/name=other"]
    {
        let (ns, _, child) = at_rest().await;
        ns.kubectl(["label", "configmap", CHILD, "--overwrite", label]).await.succeeds();
        let has_labels = |now: &Value| now["metadata"]["labels"] == child["metadata"]["labels"];
        let restored = ns.config_maps().await_that(CHILD, "has its labels again", has_labels).await;
        assert_eq!(uid(&restored), uid(&child), "after {label}");
    }
}

#[tokio::test]
async fn a_child_that_became_immutable_is_replaced_when_it_must_change() {
    let (ns, owner, child) = at_rest().await;
    ns.config_maps().merge(CHILD, json!({"immutable": true})).await;

    ns.webservices().merge("checkout", json!({"spec": {"replicas": 4}})).await;
    ns.await_ready("checkout").await;

    let successor = ns.config_maps().get(CHILD).await;
    assert_ne!(uid(&successor), uid(&child));
    assert_eq!(successor["data"]["replicas"], "4");
    assert!(is_controlled_by(&successor, &owner));
}

#[tokio::test]
async fn a_key_of_ours_that_was_moved_to_binary_data_is_put_right_by_making_the_child_anew() {
    let (ns, _, child) = at_rest().await;
    let moved = json!({"data": {"image": null}, "binaryData": {"image": "bmdpbng="}});
    ns.config_maps().merge(CHILD, moved).await;
    let is_right = |now: &Value| now["data"] == child["data"] && now["binaryData"].is_null();
    let anew = ns.config_maps().await_that(CHILD, "is right again", is_right).await;
    assert_ne!(uid(&anew), uid(&child));
    ns.await_ready("checkout").await;
}

#[tokio::test]
async fn what_others_add_to_the_child_stays() {
    let (ns, owner, child) = at_rest().await;
    let anchor = ns.config_maps().create(config_map("anchor")).await;
    let mut owners = child["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "anchor", "uid": uid(&anchor)}));
    let additions = json!({
        "metadata": {"ownerReferences": owners, "labels": {"team": "shop"}, "annotations": {"note": "hello"}},
        "data": {"further": "kept"},
    });
    ns.config_maps().merge(CHILD, additions).await;

    ns.webservices().merge("checkout", json!({"spec": {"replicas": 4}})).await;
    ns.await_ready("checkout").await;

    let child = ns.config_maps().get(CHILD).await;
    assert_eq!(
        child["data"],
        json!({"image": "nginx:1.27", "replicas": "4", "tier": "dev", "further": "kept"})
    );
    let metadata = &child["metadata"];
    assert_eq!(
        (&metadata["labels"]["team"], &metadata["annotations"]["note"]),
        (&json!("shop"), &json!("hello"))
    );
    assert_eq!(metadata["ownerReferences"].as_array().map(Vec::len), Some(2), "{child:#}");
    assert!(is_controlled_by(&child, &owner));
}

#[tokio::test]
async fn labels_of_the_webservice_are_not_copied_to_the_child() {
    let ns = TestNamespace::with_operator().await;
    let tracked = webservice("checkout")
        .edit(|object| object["metadata"]["labels"] = json!({"argocd.argoproj.io/instance": "shop"}));
    ns.webservices().create(tracked).await;
    ns.await_ready("checkout").await;
    let labels = ns.config_maps().get(CHILD).await["metadata"]["labels"].clone();
    assert_eq!(
        labels,
        json!({"app.kubernetes.io/managed-by": "webservice-controller", "app.kubernetes.io/name": "checkout"})
    );
}

#[tokio::test]
async fn a_copy_of_the_child_in_another_namespace_is_ignored_and_the_original_stays() {
    let (ns, _, child) = at_rest().await;
    let elsewhere = TestNamespace::with_operator().await;
    let mark = elsewhere.mark().await;
    let mut copy = child.clone();
    for member in ["namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        copy["metadata"].as_object_mut().unwrap().remove(member);
    }

    elsewhere.config_maps().create(copy).await;

    assert_eq!(elsewhere.writes_since(&mark).await, Vec::<String>::new());
    ns.controller.settle(&ns).await;
    assert_eq!(version(&ns.config_maps().get(CHILD).await), version(&child));
}

#[tokio::test]
async fn the_replicas_of_a_foreign_map_are_not_reported_as_ours() {
    let ns = TestNamespace::with_operator().await;
    let mut foreign = config_map(CHILD);
    foreign["data"]["replicas"] = json!("-7");
    assert_untouched(&ns, foreign).await;
    assert_eq!(ns.webservices().get("checkout").await["status"]["replicas"], 0);
}

#[tokio::test]
async fn an_immutable_orphan_is_adopted_and_then_replaced_when_the_successor_wants_something_else() {
    let (ns, _, orphan) = at_rest().await;
    ns.config_maps().merge(CHILD, json!({"immutable": true})).await;
    ns.webservices().delete_with("checkout", &DeleteParams::orphan()).await;
    ns.webservices().await_gone("checkout").await;
    let mark = ns.mark().await;

    ns.webservices().create(webservice("checkout").replicas(4)).await;
    let successor = ns.await_ready("checkout").await;

    let child = ns.config_maps().get(CHILD).await;
    assert_ne!(uid(&child), uid(&orphan));
    assert_eq!(child["data"]["replicas"], "4");
    assert!(is_controlled_by(&child, &successor), "{child:#}");
    let writes = ns.writes_since(&mark).await;
    let expected = ["create", "delete", "update"].map(|verb| format!("{verb} configmaps {CHILD}"));
    let children: Vec<_> = writes.into_iter().filter(|write| write.contains("configmaps")).collect();
    assert_eq!(children, expected);
}
