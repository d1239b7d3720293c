//! An API server that protects itself: the controller's account has a share of it that is soon used up.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use webservice_tests::bed::{TestCluster, TestNamespace, fleet};
use webservice_tests::prove::full;

const NAME: &str = "one-seat";

/// Applies an object of the whole cluster.
async fn apply<K>(ns: &TestNamespace, object: Value)
where
    K: kube::Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let params = PatchParams::apply("test").force();
    Api::<K>::all(ns.client().clone()).patch(NAME, &params, &Patch::Apply(object)).await.unwrap();
}

/// Gives the namespace's account the smallest share that there is. What exceeds it is refused at once.
async fn confine(ns: &TestNamespace) {
    use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
    const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
    let level = json!({
        "apiVersion": API_VERSION, "kind": "PriorityLevelConfiguration", "metadata": {"name": NAME},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
        }},
    });
    apply::<PriorityLevelConfiguration>(ns, level).await;
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true});
    let schema = json!({
        "apiVersion": API_VERSION, "kind": "FlowSchema", "metadata": {"name": NAME},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": NAME},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": ns.account().await.user}}],
                "resourceRules": [everything],
            }],
        },
    });
    apply::<FlowSchema>(ns, schema).await;
}

#[tokio::test]
async fn who_is_refused_for_want_of_a_seat_comes_back_later_until_all_is_done() {
    let count = full(100, 500);
    let ns = TestCluster::private_with_crd().await.namespace().await;
    confine(&ns).await;
    fleet::backlog(&ns, 0..count).await;

    let mark = ns.mark().await;
    let controller = ns.start_controller().await;
    fleet::await_ready(&ns, 0..count).await;

    let calls = ns.calls_since(&mark).await.by(&ns.account().await.user);
    let refused = calls.all().iter().filter(|call| call.code == 429).count();
    assert!(refused > 0, "nobody was refused");
    let writes =
        |resource| calls.all().iter().filter(move |call| call.resource == resource && call.has_written());
    assert_eq!(writes("configmaps").count(), count, "no child is written twice");
    // What waits for long is told of once.
    assert!(writes("webservices/status").count() <= 2 * count);
    assert!(refused <= 10 * count, "{refused} calls were refused");
    let requests = controller.metrics().await;
    assert!(requests.count("rest_client_requests_total", &[("code", "429")]) > 0);
}
