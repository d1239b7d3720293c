//! A controller that was away: stopped, killed at any moment, or frozen. What it missed, it finds out from what there is.

use serde_json::{Value, json};
use webservice_tests::bed::{Controller, TestNamespace, is_ready, name, uid, version, webservice};

#[tokio::test]
async fn what_happened_while_the_controller_was_away_is_made_up_for() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let controller = ns.start_controller().await;
    for name in ["c2", "c3"] {
        ns.webservices().create(webservice(name)).await;
        ns.await_ready(name).await;
    }
    controller.process().stop().await;

    ns.webservices().create(webservice("c1")).await;
    ns.webservices().delete("c1").await;
    ns.webservices().delete("c2").await;
    ns.config_maps().delete("c3-desired").await;
    let controller = ns.start_controller().await;

    ns.webservices().await_gone("c1").await;
    ns.webservices().await_gone("c2").await;
    ns.config_maps().await_that("c3-desired", "is there again", |_| true).await;
    controller.settle(&ns).await;
    for gone in ["c1-desired", "c2-desired"] {
        assert_eq!(ns.config_maps().find(gone).await, None);
    }
}

#[tokio::test]
async fn a_controller_that_was_frozen_goes_on_from_what_there_is_now() {
    let ns = TestNamespace::with_operator().await;
    for name in ["kept", "deleted", "recreated"] {
        ns.webservices().create(webservice(name)).await;
        ns.await_ready(name).await;
    }

    ns.controller.process().pause();
    for replicas in 2..=20 {
        ns.webservices().merge("kept", json!({"spec": {"replicas": replicas}})).await;
    }
    for name in ["deleted", "recreated"] {
        ns.webservices().delete(name).await;
        ns.webservices().merge(name, json!({"metadata": {"finalizers": null}})).await;
        ns.webservices().await_gone(name).await;
    }
    let successor = ns.webservices().create(webservice("recreated")).await;
    ns.controller.process().resume();

    let is_current = |child: &Value| child["data"]["replicas"] == "20";
    ns.config_maps().await_that("kept-desired", "is current", is_current).await;
    ns.config_maps().await_gone("deleted-desired").await;
    let is_successors = |child: &Value| child["metadata"]["ownerReferences"][0]["uid"] == uid(&successor);
    ns.config_maps().await_that("recreated-desired", "belongs to the successor", is_successors).await;
    ns.await_ready("recreated").await;
}

/// Creates, changes and deletes, a different mixture in each round, and gives what should exist afterwards.
async fn stir(ns: &TestNamespace, round: usize) {
    for number in 0..6 {
        let name = format!("w-{number}");
        match (ns.webservices().find(&name).await, (round + number) % 3) {
            (None, _) => _ = ns.webservices().create(webservice(&name)).await,
            (Some(_), 0) => ns.webservices().delete(&name).await,
            (Some(_), _) => {
                let replicas = json!({"spec": {"replicas": round}});
                // It may be on its way out since an earlier round.
                _ = ns.webservices().try_merge(&name, &replicas).await;
            }
        }
    }
}

#[tokio::test]
async fn a_controller_that_is_killed_again_and_again_leaves_nothing_half_done() {
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    for round in 1..=8 {
        let controller: Controller = ns.controller().launch().await;
        stir(&ns, round).await;
        // Further into its work every time.
        for _ in 0..round {
            controller.probe("/livez").await;
        }
        controller.process().kill().await;
    }

    let controller = ns.start_controller().await;
    controller.settle(&ns).await;

    let owners = ns.webservices().list().await;
    for owner in &owners {
        assert!(is_ready(owner), "{owner:#}");
    }
    let mut expected: Vec<_> = owners.iter().map(|owner| format!("{}-desired", name(owner))).collect();
    expected.sort();
    let children = ns.config_maps().list().await;
    let mut children: Vec<_> = children.iter().map(name).filter(|name| name.ends_with("-desired")).collect();
    children.sort_unstable();
    assert_eq!(children, expected);
}

#[tokio::test]
async fn statuses_are_the_same_to_the_last_bit_after_restarts() {
    let mut ns = TestNamespace::with_operator().await;
    for number in 0..10 {
        ns.webservices().create(webservice(&format!("w-{number}"))).await;
    }
    ns.controller.settle(&ns).await;
    let before = ns.webservices().list().await;

    for _ in 0..3 {
        ns.restart_controller().await;
        ns.controller.settle(&ns).await;
    }

    let after = ns.webservices().list().await;
    for object in before {
        let now = after.iter().find(|now| uid(now) == uid(&object)).unwrap();
        assert_eq!(version(now), version(&object), "{now:#}");
    }
}

#[tokio::test]
async fn a_controller_that_is_told_to_stop_does_so_with_exit_code_0_and_without_an_error() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.controller.process().stop().await;
    ns.webhook.process().stop().await;
    assert_eq!(ns.controller.process().errors(), Vec::<Value>::new());
    assert_eq!(ns.webhook.process().errors(), Vec::<Value>::new());
}
