//! What whoever runs the cluster demands, as people meet it.

use std::collections::BTreeMap;

use serde_json::json;
use webservice_tests::bed::{Mark, TestNamespace, webservice};

const POLICY: &str = "
allowedRegistries: [docker.io]
maxReplicas: {overall: 5}
levels: {image-pinned: off}
";

/// What the webhooks noted in the audit log beside the call about this object, without their domain.
async fn annotations(ns: &TestNamespace, name: &str, mark: &Mark) -> BTreeMap<String, String> {
    let calls = ns.calls_about(name, mark).await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    let ours = |(key, value): (&String, &String)| {
        let (webhook, key) = key.split_once(".webservices.apps.labhub.io/")?;
        Some((format!("{webhook}/{key}"), value.clone()))
    };
    calls[0].annotations.iter().filter_map(ours).collect()
}

#[tokio::test]
async fn a_policy_is_enforced_with_a_message_that_says_what_is_allowed() {
    let ns = TestNamespace::new().await;
    let _webhook = ns.start_webhook_with_policy(POLICY).await;
    let refusal =
        ns.webservices().rejects(webservice("checkout").image("quay.io/team/app:1").replicas(6)).await;
    assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
    for part in [
        r#"spec.image: must come from docker.io, found "quay.io/team/app""#,
        "spec.replicas: must be at most 5, found 6",
    ] {
        assert!(refusal.message.contains(part), "{refusal}");
    }
    ns.webservices().accepts(webservice("checkout").replicas(5)).await;
}

#[tokio::test]
async fn an_object_from_before_the_policy_can_still_be_changed_and_deleted() {
    let ns = TestNamespace::new().await;
    ns.webservices().create(webservice("checkout").replicas(9)).await;
    let _webhook = ns.start_webhook_with_policy(POLICY).await;

    let patch = r#"{"spec": {"image": "nginx:1.28"}}"#;
    let patched = ns.kubectl(["patch", "ws", "checkout", "--type=merge", "-p", patch]).await.succeeds();
    assert!(patched.stderr.contains("Warning: spec.replicas: must be at most 5, found 9"), "{patched}");
    let refusal =
        ns.webservices().try_merge("checkout", &json!({"spec": {"replicas": 8}})).await.unwrap_err();
    assert_eq!(refusal.code, 422, "{refusal}");
    ns.webservices().delete("checkout").await;
    ns.webservices().merge("checkout", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(ns.webservices().find("checkout").await, None);
}

#[tokio::test]
async fn scaling_does_not_go_past_the_maximum() {
    let ns = TestNamespace::new().await;
    let _webhook = ns.start_webhook_with_policy(POLICY).await;
    ns.webservices().create(webservice("checkout")).await;
    ns.kubectl(["scale", "ws/checkout", "--replicas=5"]).await.succeeds();
    let refused = ns.kubectl(["scale", "ws/checkout", "--replicas=6"]).await.exits(1);
    assert!(refused.stderr.contains("must be at most 5, found 6"), "{refused}");
}

#[tokio::test]
async fn decisions_are_kept_in_the_audit_log() {
    let ns = TestNamespace::new().await;
    let _webhook = ns.start_webhook_with_policy(POLICY).await;
    let (allowed, denied) = ("audited-and-allowed", "audited-and-denied");
    let mark = ns.mark().await;
    ns.webservices().accepts(webservice(allowed).replicas(0)).await;
    ns.webservices().rejects(webservice(denied).replicas(6)).await;

    let note = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        annotations(&ns, allowed, &mark).await,
        BTreeMap::from([
            note("default/decision", "allowed"),
            note("default/defaulted", "metadata.finalizers"),
            note("validate/decision", "allowed"),
            note("validate/warnings", "replicas-zero"),
        ])
    );
    assert_eq!(
        annotations(&ns, denied, &mark).await,
        BTreeMap::from([
            note("default/decision", "allowed"),
            note("default/defaulted", "metadata.finalizers"),
            note("validate/decision", "denied"),
            note("validate/rules", "replicas-maximum"),
        ])
    );
}
