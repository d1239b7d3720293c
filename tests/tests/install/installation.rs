//! `helm install`, and the first WebService after it.

use std::time::Instant;

use serde_json::json;
use tokio::time::{Duration, sleep};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{RELEASE, Site, webservice};
use webservice_tests::cluster::tools::{HELM_3, HELM_4};

/// Installs by each version of Helm what people install, uses it, and removes it again.
async fn install_use_and_remove(site: &Site, mode: &str, values: &[&str]) {
    for version in [&HELM_4, &HELM_3] {
        let started = Instant::now();
        site.deploy(version, "install", values).await;
        let installed = started.elapsed().as_secs_f64();
        site.assert_works(&format!("checkout-{}", version.name)).await;
        let ready = started.elapsed().as_secs_f64();
        println!(
            "{}, {mode}: install {installed:.1} s, first WebService Ready after {ready:.1} s",
            version.name
        );
        site.helm(version, &["test", RELEASE]).await;
        site.helm(version, &["uninstall", RELEASE, "--wait"]).await;
        // Helm keeps the CRD, and with it what the next release finds.
        site.webservices().get(&format!("checkout-{}", version.name)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_webservice_after_an_installation_is_completed_checked_and_ready() {
    install_use_and_remove(&Site::new().await, "self-managed", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_cert_manager_are_trusted_by_the_time_the_installation_ends() {
    let site = Site::new().await;
    site.start_cert_manager().await;
    let staging = "--values=charts/webservice-operator/values-staging.yaml";
    install_use_and_remove(&site, "cert-manager", &[staging, WITHOUT_PROMETHEUS]).await;
    let leaf = site.secrets().get(&format!("{RELEASE}-tls")).await;
    let made_by = &leaf["metadata"]["annotations"]["cert-manager.io/certificate-name"];
    assert_eq!(*made_by, format!("{RELEASE}-tls"), "cert-manager made it, and keeps its Secrets");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_in_the_first_seconds_is_refused_in_a_sentence_or_as_complete_as_any_other() {
    let site = Site::new().await;
    let early = async {
        let mut accepted = Vec::new();
        for number in 0..200 {
            let name = format!("early-{number}");
            match site.webservices().try_create(webservice(&name)).await {
                Ok(_) => accepted.push(name),
                Err(refusal) => {
                    // Before there is a definition nobody knows what a WebService is.
                    let is_clear = refusal.code == 404 || refusal.message.contains("failed calling webhook");
                    assert!(is_clear, "{refusal}");
                }
            }
            // A rate, not a wait: the release comes up meanwhile.
            sleep(Duration::from_millis(50)).await;
        }
        accepted
    };
    let (accepted, ()) = tokio::join!(early, site.install(&[]));
    site.assert_works("checkout").await;
    for name in &accepted {
        let stored = site.await_ready(name).await;
        assert_eq!((&stored["spec"]["replicas"], &stored["spec"]["tier"]), (&json!(1), &json!("dev")));
        assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]), "{name}");
    }
    println!("{} of 200 were accepted", accepted.len());
}

/// Nobody has the definitions of its objects here.
const WITHOUT_PROMETHEUS: &str =
    "--set=monitoring.serviceMonitor.enabled=false,monitoring.prometheusRule.enabled=false";
