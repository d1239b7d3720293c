//! What the controller tells of itself: probes, metrics, state, log, and its name in the API server's log.

use std::time::Instant;

use serde_json::json;
use webservice_tests::bed::{TestNamespace, eventually, version, webservice};

#[tokio::test]
async fn every_check_of_a_ready_controller_says_how_things_are() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    eventually("the child is cached", async || match ns.controller.probe("/readyz?verbose").await {
        (200, text) if text.contains("[+]cache-configmaps ok: 1 objects") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let (_, text) = ns.controller.probe("/readyz?verbose").await;
    for check in [
        "[+]cache-webservices ok: 1 objects\n",
        "[+]watches ok\n",
        "[+]api-reachable ok: last answer ",
        "[+]leader-election ok: leading\n",
    ] {
        assert!(text.contains(check), "{check} is missing in {text}");
    }
    let (code, text) = ns.controller.probe("/livez?verbose").await;
    assert!(code == 200 && text.contains("[+]workers ok: "), "{text}");
}

#[tokio::test]
async fn metrics_tell_objects_caches_and_drift() {
    let began = Instant::now();
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.webservices().create(webservice("shop").depends_on(["missing"])).await;
    ns.await_ready("checkout").await;
    ns.await_reason("shop", "DependencyNotReady").await;
    let changed = ns.config_maps().merge("checkout-desired", json!({"data": {"tier": "changed"}})).await;
    let is_put_back =
        |object: &serde_json::Value| object["data"]["tier"] == "dev" && version(object) != version(&changed);
    ns.config_maps().await_that("checkout-desired", "is put back", is_put_back).await;

    eventually("the metrics tell all", async || {
        let metrics = ns.controller.metrics().await;
        let told = [
            metrics.count("webservice_objects", &[("ready", "True")]),
            metrics.count("webservice_objects", &[("ready", "False")]),
            metrics.count("webservice_cache_objects", &[("kind", "WebService")]),
            metrics.count("webservice_cache_objects", &[("kind", "ConfigMap")]),
            metrics.count("webservice_drift_corrections_total", &[]),
            metrics.count("leader_election_master_status", &[("name", "webservice-controller")]),
        ];
        if told == [1, 1, 2, 1, 1, 1] { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    let metrics = ns.controller.metrics().await;
    let bytes = metrics.count("webservice_cache_bytes", &[("kind", "WebService")]);
    assert!((500..4000).contains(&bytes), "{bytes} bytes for two objects");
    assert!(metrics.count("webservice_cache_age_seconds", &[("kind", "WebService")]) < 60);
    let watches = metrics.count("webservice_watch_starts_total", &[("kind", "ConfigMap")]);
    // Each lasts 50 s, if nothing happens to it.
    let most = 1 + began.elapsed().as_secs() / 50;
    assert!((1..=most).contains(&watches), "{watches} watches, of which there may be {most}");
    assert_eq!(metrics.count("webservice_watch_problems_total", &[]), 0);
    let server = ns.cluster().server_address();
    let asked = [("code", "200"), ("method", "GET"), ("host", server)];
    assert!(metrics.count("rest_client_requests_total", &asked) > 0, "no request to {server}");
}

#[tokio::test]
async fn the_state_tells_what_fails_what_is_cached_and_what_is_watched() {
    let ns = TestNamespace::new().await;
    let _policy = ns.forbid_unless("object.kind != 'ConfigMap'").await;
    let controller = ns.start_controller().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_reason("checkout", "Forbidden").await;

    let key = format!("{}/checkout", ns.name());
    let state = eventually("the failing key is told", async || {
        let state = controller.state().await;
        if state["backOff"]["keys"][0]["key"] == *key { Ok(state) } else { Err(state.to_string()) }
    })
    .await;
    assert_eq!(state["caches"][0]["objects"], 1, "{state:#}");
    assert_eq!(state["lease"]["role"], "leader");
    assert_eq!(state["watches"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn the_filter_of_the_log_changes_while_the_process_runs() {
    let ns = TestNamespace::new().await;
    let controller = ns.start_controller().await;
    let is_debug = |line: &serde_json::Value| line["level"] == "DEBUG";
    assert!(!controller.process().log().iter().any(is_debug));

    assert_eq!(controller.set_log_filter("webservice_controller=loud").await.0, 400);
    assert_eq!(controller.set_log_filter("debug").await, (200, "debug\n".to_owned()));
    ns.webservices().create(webservice("checkout")).await;
    controller.process().await_line("logs more", is_debug).await;
}

#[tokio::test]
async fn requests_carry_the_name_and_the_version_of_the_program() {
    let ns = TestNamespace::new().await;
    let mark = ns.mark().await;
    let _controller = ns.start_controller().await;
    let calls = ns.calls_since(&mark).await;
    let agents: Vec<_> = calls.all().iter().map(|call| &*call.agent).collect();
    let agent = concat!("webservice-controller/", env!("CARGO_PKG_VERSION"));
    assert!(!agents.is_empty() && agents.iter().all(|sent| *sent == agent), "{agents:?}");
}

#[tokio::test]
async fn a_transition_that_repeats_is_counted_in_the_event_that_told_of_it_first() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    for (suspend, reason) in [(true, "Suspended"), (false, "Reconciled")] {
        ns.webservices().merge("checkout", json!({"spec": {"suspend": suspend}})).await;
        ns.await_reason("checkout", reason).await;
    }
    eventually("the event counts two", async || {
        let mut events = ns.events().list().await;
        events.retain(|event| event["reason"] == "Reconciled");
        match &*events {
            [event] if event["series"]["count"] == 2 => Ok(()),
            _ => Err(format!("{events:#?}")),
        }
    })
    .await;
}
