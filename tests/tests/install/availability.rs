//! Replicas, nodes and rights come and go.

use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::{Value, json};
use webservice_tests::bed::{Metrics, OPERATOR, RELEASE, SHOP, Site, config_map, eventually, webservice};
use webservice_tests::prove::{Findings, burst, full, passed_in_time};

use crate::load::strict;

/// The metrics of a pod, by way of the API server.
async fn metrics(site: &Site, pod: &Pod) -> Metrics {
    let pod = pod.metadata.name.as_deref().unwrap();
    let path = format!("/api/v1/namespaces/{OPERATOR}/pods/http:{pod}:8080/proxy/metrics");
    let request = Request::get(path).body(Vec::new()).unwrap();
    Metrics::parse(&site.client().request_text(request).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_creations_passes_in_time_and_both_replicas_take_part() {
    let site = Site::new().await;
    site.install(&[&strict()]).await;
    let (workers, creations) = full((20, 20), (100, 50));
    let (tally, took) = burst(&site.webservices(), workers, creations).await;

    let mut findings = Findings::of("burst of creations at the chart's limits");
    passed_in_time(&mut findings, &tally, &took);
    let number = tally.calls();
    for pod in site.pods("webhook").await {
        let calls = metrics(&site, &pod).await.count("controller_runtime_webhook_requests_total", &[]);
        #[expect(clippy::cast_precision_loss, reason = "nothing is counted up to 2^52")]
        let share = calls as f64 / (2 * number) as f64;
        findings.at_least("a replica's share of the calls", calls, share, 0.1);
    }
    findings.conclude();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_of_the_node_is_blocked_by_no_budget_and_all_comes_back_from_nothing() {
    let site = Site::new().await;
    site.install(&[&strict(), "--set=webhook.replicas=1"]).await;
    site.assert_works("checkout").await;
    site.kubectl(["drain", "node", "--ignore-daemonsets", "--delete-emptydir-data", Site::TIMEOUT])
        .await
        .succeeds();
    // While nobody can answer for WebServices, everything else that the operator needs can be made.
    site.objects::<Lease>(OPERATOR).delete("webservice-controller").await;
    site.secrets().delete(&format!("{RELEASE}-tls")).await;
    site.objects::<ConfigMap>(OPERATOR).create(config_map("anything")).await;
    let refusal = site.webservices().rejects(webservice("meanwhile")).await;
    assert!(refusal.message.contains("failed calling webhook"), "{refusal}");
    site.kubectl(["uncordon", "node"]).await.succeeds();
    eventually("WebServices can be created again", async || {
        site.webservices().try_accept(webservice("again")).await.map_err(|status| status.message)
    })
    .await;
    site.assert_works("afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_rights_the_controller_waits_and_goes_on_when_it_has_them_again() {
    let site = Site::new().await;
    site.install(&[]).await;
    site.assert_works("checkout").await;
    let bindings = site.objects::<ClusterRoleBinding>("");
    let name = format!("{OPERATOR}-{RELEASE}-controller");
    let mut binding = bindings.get(&name).await;
    bindings.delete(&name).await;
    site.kubectl(["delete", "webservice", "checkout", "--namespace", SHOP, "--wait=false"]).await.succeeds();
    let controller = site.pods("controller").await.remove(0);
    eventually("the controller is refused", async || {
        let refused =
            metrics(&site, &controller).await.count("rest_client_requests_total", &[("code", "403")]);
        if refused > 0 { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert_eq!(
        site.webservices().get("checkout").await["metadata"]["finalizers"].as_array().unwrap().len(),
        1
    );

    binding["metadata"] = json!({"name": name, "labels": binding["metadata"]["labels"]});
    bindings.create(binding).await;
    site.webservices().await_gone("checkout").await;
    let now: Value = site.objects::<Pod>(OPERATOR).get(controller.metadata.name.as_deref().unwrap()).await;
    assert_eq!(now["status"]["containerStatuses"][0]["restartCount"], 0);
}
