//! Policies that stand against the controller: what is forbidden or undone is told of, tried again at leisure, and done at once
//! when it becomes possible.

use std::time::{Duration, Instant};

use serde_json::json;
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{DEADLINE, TestNamespace, condition, webservice, within};

/// No child may be of this tier.
const NO_GOLD: &str = "!object.metadata.name.endsWith('-desired') || object.data.tier != 'gold'";
/// The child becomes of this tier.
const MADE_GOLD: &str = "object.metadata.name == 'checkout-desired' ? [JSONPatch{op: 'replace', path: '/data/tier', value: 'gold'}] : []";
/// What is being deleted keeps the finalizers that it has, whatever the controller says.
const NO_RELEASE: &str = "has(object.metadata.deletionTimestamp) && request.userInfo.username.startsWith('system:serviceaccount:') ? [JSONPatch{op: 'add', path: '/metadata/finalizers', value: oldObject.metadata.finalizers}] : []";

/// Half of the minute for which a key waits whose writes are rejected.
const AT_ONCE: Duration = Duration::from_secs(30);

/// Creates `checkout`, whose child the policy denies, and waits until that is told.
async fn await_refused(ns: &TestNamespace) {
    ns.webservices().create(webservice("checkout").tier("gold")).await;
    let refused = ns.await_reason("checkout", "Forbidden").await;
    assert_eq!(condition(&refused, "Ready")["status"], "False");
}

#[tokio::test]
async fn a_child_that_a_policy_denies_is_told_of_and_tried_again_at_leisure() {
    let ns = TestNamespace::with_operator().await;
    ns.forbid_unless(NO_GOLD).await;
    let mark = ns.mark().await;

    await_refused(&ns).await;

    let writes = ns.writes_since(&mark).await;
    let attempts = writes.iter().filter(|write| *write == "create configmaps checkout-desired (422)").count();
    assert!((1..=3).contains(&attempts), "{writes:?}");
}

#[tokio::test]
async fn a_spec_that_the_policy_allows_is_acted_on_at_once() {
    let ns = TestNamespace::with_operator().await;
    ns.forbid_unless(NO_GOLD).await;
    await_refused(&ns).await;
    ns.controller.settle(&ns).await;

    ns.webservices().merge("checkout", json!({"spec": {"tier": "dev"}})).await;
    let asked = Instant::now();
    ns.await_ready("checkout").await;

    assert!(asked.elapsed() < AT_ONCE, "it took {:?}", asked.elapsed());
}

#[tokio::test]
async fn each_of_several_edits_is_acted_on_at_once_though_the_ones_before_it_were_denied() {
    let ns = TestNamespace::with_operator().await;
    ns.forbid_unless(NO_GOLD).await;
    await_refused(&ns).await;

    for replicas in [2, 3, 4] {
        ns.webservices().merge("checkout", json!({"spec": {"replicas": replicas}})).await;
        let asked = Instant::now();
        ns.await_reason("checkout", "Forbidden").await;
        assert!(asked.elapsed() < AT_ONCE, "the edit to {replicas} took {:?}", asked.elapsed());
    }
}

#[tokio::test]
async fn a_deletion_is_acted_on_at_once_however_long_the_policy_has_denied_the_child() {
    let ns = TestNamespace::with_operator().await;
    ns.forbid_unless(NO_GOLD).await;
    await_refused(&ns).await;
    for replicas in [2, 3, 4] {
        ns.webservices().merge("checkout", json!({"spec": {"replicas": replicas}})).await;
        ns.controller.settle(&ns).await;
    }

    ns.webservices().delete("checkout").await;
    let asked = Instant::now();
    ns.webservices().await_gone("checkout").await;

    assert!(asked.elapsed() < AT_ONCE, "it took {:?}", asked.elapsed());
}

#[tokio::test]
async fn a_policy_that_undoes_what_is_written_is_told_of_and_leads_to_no_war() {
    let ns = TestNamespace::with_operator().await;
    ns.rewrite(MADE_GOLD).await;
    let mark = ns.mark().await;
    ns.webservices().create(webservice("checkout")).await;

    let contested = ns.await_reason("checkout", "Contested").await;

    let ready = condition(&contested, "Ready");
    assert_eq!(ready["status"], "False");
    assert!(ready["message"].to_string().contains("configmap/checkout-desired"), "{ready}");
    let writes = ns.writes_since(&mark).await;
    let attempts = writes.iter().filter(|write| write.ends_with(" configmaps checkout-desired")).count();
    assert!((2..=6).contains(&attempts) && writes.len() <= 8, "{writes:?}");
}

#[tokio::test]
async fn an_object_whose_finalizer_a_policy_keeps_goes_when_the_policy_does() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    let policy = ns.rewrite(NO_RELEASE).await;
    ns.webservices().delete("checkout").await;
    let held = ns.await_reason("checkout", "Contested").await;
    assert_eq!(held["metadata"]["finalizers"], json!([FINALIZER]));

    policy.lift().await;

    // It is tried once a minute.
    within(2 * DEADLINE, "the object is gone", async || match ns.webservices().find("checkout").await {
        None => Ok(()),
        Some(object) => Err(object.to_string()),
    })
    .await;
}
