//! The webhook stands in the path of every write of a WebService, and of nothing else.

use serde_json::{Value, json};
use webservice_tests::bed::{TestNamespace, condition, config_map, webservice};
use webservice_tests::prove::{Findings, burst, full, passed_in_time};

#[tokio::test]
async fn while_the_webhook_is_down_everything_goes_on_but_the_writing_of_webservices() {
    let ns = TestNamespace::with_operator().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;
    ns.webhook.process().kill().await;

    ns.webservices().rejects(webservice("search")).await;
    ns.config_maps().create(config_map("of-somebody")).await;
    ns.config_maps().merge("checkout-desired", json!({"data": {"tier": "drifted"}})).await;
    let is_put_back = |map: &Value| map["data"]["tier"] == "dev";
    ns.config_maps().await_that("checkout-desired", "is put back", is_put_back).await;
    let audited = json!({"type": "Audited", "status": "True", "reason": "Looked", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let stored = ns.webservices().get("checkout").await;
    let conditions = [&[audited][..], stored["status"]["conditions"].as_array().unwrap()].concat();
    let reported =
        ns.webservices().merge_status("checkout", json!({"status": {"conditions": conditions}})).await;
    assert_eq!(condition(&reported, "Audited")["status"], "True");

    let _again = ns.start_webhook().await;
    ns.webservices().create(webservice("search")).await;
    ns.await_ready("search").await;
}

#[tokio::test]
async fn who_deletes_the_registration_can_write_again() {
    let (ns, webhook) = TestNamespace::with_webhook().await;
    webhook.process().kill().await;
    ns.webservices().rejects(webservice("checkout")).await;

    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        ns.kubectl(["delete", kind, ns.name()]).await.succeeds();
    }
    webservice_tests::bed::eventually("the API server no longer calls the webhook", async || {
        ns.webservices().try_accept(webservice("checkout")).await.map_err(|status| status.message)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_creations_passes_the_webhook_in_time() {
    let (workers, creations) = full((20, 10), (100, 50));
    let (ns, _webhook) = TestNamespace::with_webhook().await;
    let (tally, took) = burst(&ns.webservices(), workers, creations).await;

    let mut findings = Findings::of("burst of creations");
    passed_in_time(&mut findings, &tally, &took);
    findings.conclude();
}
