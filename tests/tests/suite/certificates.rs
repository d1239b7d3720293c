//! The webhook's certificates as the leading controller keeps them, and what the API server and people see of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{Controller, Installation, TestNamespace, eventually, webservice};
use webservice_tests::prove::{Findings, Load, Tally};

/// API servers of the test bed notice a new CA within milliseconds, and where the machine is busy within seconds.
const OVERLAP: &str = "--ca-overlap=10s";
const CALLERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);
const CA: &str = "webhook-ca";
const LEAF: &str = "webhook-tls";

fn text(secret: &Value, key: &str) -> String {
    decoded(&secret["data"][key])
}

fn decoded(value: &Value) -> String {
    String::from_utf8(STANDARD.decode(value.as_str().unwrap_or_default()).unwrap()).unwrap()
}

fn ca_bundle(registration: &Value) -> String {
    decoded(&registration["webhooks"][0]["clientConfig"]["caBundle"])
}

fn count(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

/// Waits until a Secret holds something else than this.
async fn await_another(installed: &Installation<'_>, secret: &str, key: &str, before: &str) -> Value {
    let is_another = |stored: &Value| text(stored, key) != before;
    installed.secrets().await_that(secret, "holds something else", is_another).await
}

async fn await_leading(controller: &Controller) {
    controller.process().await_line("leads", |line| line["message"] == "leading").await;
}

#[tokio::test]
async fn a_first_installation_has_all_that_an_admission_needs_once_the_controller_is_ready() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let refusal = ns.webservices().rejects(webservice("too-early")).await;
    assert!(refusal.message.contains("failed calling webhook"), "{refusal}");

    let controller = installed.controller().start().await;
    let stored = ns.webservices().create(webservice("checkout")).await;
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]));
    ns.webservices().rejects(webservice("checkout-2").image("nginx:1.27:oops")).await;
    ns.await_ready("checkout").await;
    assert!(controller.probe("/readyz?verbose").await.1.contains("[+]webhook-registered ok"));

    let (ca, leaf) = (installed.secrets().get(CA).await, installed.secrets().get(LEAF).await);
    for secret in [&ca, &leaf] {
        assert_eq!(secret["type"], "kubernetes.io/tls");
        assert!(text(secret, "tls.key").contains("PRIVATE KEY"));
    }
    assert_eq!(text(&leaf, "ca.crt"), text(&ca, "tls.crt"));
    for registration in installed.registrations().await {
        assert_eq!(ca_bundle(&registration), text(&ca, "ca.crt"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_creation_fails_while_leaf_and_ca_are_replaced() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let _controller = installed.controller().flags([OVERLAP]).start().await;
    let tally = Arc::new(Tally::default());
    let mut load = Load::new();
    for _ in 0..CALLERS {
        let (webservices, tally) = (ns.webservices(), Arc::clone(&tally));
        load.add(PAUSE, move || {
            let (webservices, tally) = (webservices.clone(), Arc::clone(&tally));
            async move {
                let answer = webservices.try_accept(webservice("checkout")).await;
                tally.count(answer.map_err(|status| anyhow!(status.message)));
            }
        });
    }

    let leaf = installed.secrets().get(LEAF).await;
    let rotate = |what: &str| json!({"metadata": {"annotations": {"webservice.labhub.io/rotate": what}}});
    installed.secrets().merge(LEAF, rotate("leaf")).await;
    let second = await_another(&installed, LEAF, "tls.crt", &text(&leaf, "tls.crt")).await;
    assert_eq!(text(&second, "ca.crt"), text(&leaf, "ca.crt"), "the CA is the same");
    assert_eq!(second["metadata"]["annotations"]["webservice.labhub.io/rotate"], Value::Null);

    installed.secrets().merge(CA, rotate("ca")).await;
    let third = await_another(&installed, LEAF, "ca.crt", &text(&leaf, "ca.crt")).await;
    let ca = installed.secrets().get(CA).await;
    assert_eq!(text(&third, "ca.crt"), text(&ca, "tls.crt"), "the leaf is of the new CA");
    for registration in installed.registrations().await {
        assert_eq!((ca_bundle(&registration), count(&ca_bundle(&registration))), (text(&ca, "ca.crt"), 2));
    }
    let presented = |line: &Value| line["message"] == "presenting a new certificate";
    eventually("the webhook has taken up three certificates", async || {
        match installed.webhook().log().iter().filter(|line| presented(line)).count() {
            3 => Ok(()),
            others => Err(others),
        }
    })
    .await;
    let calls = tally.calls();
    eventually("calls go on", async || if tally.calls() > calls + 20 { Ok(()) } else { Err(tally.calls()) })
        .await;
    load.finish().await.unwrap();
    let mut findings = Findings::of("certificates replaced under load");
    findings.none_failed("creations", &tally);
    findings.conclude();
}

#[tokio::test]
async fn another_leader_finds_nothing_to_do() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let first = installed.controller().start().await;
    let second = installed.controller().start().await;
    let versions = installed.versions().await;
    first.process().stop().await;
    await_leading(&second).await;
    let expiry = "webservice_certificate_secret_expiry_timestamp_seconds";
    eventually("the second has looked after the certificates", async || {
        match second.metrics().await.count(expiry, &[("certificate", "leaf")]) {
            0 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    assert_eq!(installed.versions().await, versions);
    assert_eq!(second.metrics().await.count("webservice_certificate_renewals_total", &[]), 0);
}

#[tokio::test]
async fn what_people_break_is_repaired() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let _controller = installed.controller().start().await;
    let ca = installed.secrets().get(CA).await;
    let bundle = text(&ca, "ca.crt");
    installed.secrets().delete(LEAF).await;
    installed.secrets().merge(CA, json!({"data": {"ca.crt": STANDARD.encode("oops")}})).await;
    let blank = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    ns.kubectl(["patch", "validatingwebhookconfiguration", ns.name(), "--type=json", "-p", blank])
        .await
        .succeeds();

    let leaf = installed.secrets().await_that(LEAF, "is there again", |_| true).await;
    assert_eq!(text(&leaf, "ca.crt"), text(&ca, "tls.crt"), "the CA is the same");
    installed.secrets().await_that(CA, "holds its bundle", |secret| text(secret, "ca.crt") == bundle).await;
    eventually("both registrations hold it", async || {
        let registrations = installed.registrations().await;
        if registrations.iter().all(|registration| ca_bundle(registration) == bundle) {
            Ok(())
        } else {
            Err(format!("{registrations:?}"))
        }
    })
    .await;
    eventually("writes pass again", async || {
        ns.webservices().try_accept(webservice("checkout")).await.map_err(|status| status.message)
    })
    .await;
}

#[tokio::test]
async fn a_ca_that_people_take_out_of_secrets_and_registrations_stays_out() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let _controller = installed.controller().flags([OVERLAP]).start().await;
    let leaf = installed.secrets().get(LEAF).await;
    let rotate = json!({"metadata": {"annotations": {"webservice.labhub.io/rotate": "ca"}}});
    installed.secrets().merge(CA, rotate).await;
    await_another(&installed, LEAF, "ca.crt", &text(&leaf, "ca.crt")).await;

    let new = text(&installed.secrets().get(CA).await, "tls.crt");
    for secret in [CA, LEAF] {
        installed.secrets().merge(secret, json!({"data": {"ca.crt": STANDARD.encode(&new)}})).await;
    }
    let path = "/webhooks/0/clientConfig/caBundle";
    let alone = json!([{"op": "replace", "path": path, "value": STANDARD.encode(&new)}]).to_string();
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        ns.kubectl(["patch", kind, ns.name(), "--type=json", "-p", &alone]).await.succeeds();
    }
    // The next thing that it does shows that it has looked at all this.
    installed.secrets().delete(LEAF).await;
    installed.secrets().await_that(LEAF, "is there again", |_| true).await;
    for registration in installed.registrations().await {
        assert_eq!(ca_bundle(&registration), new);
    }
}

#[tokio::test]
async fn the_cas_of_a_file_are_published_beside_those_that_are_trusted_already() {
    let ns = TestNamespace::new().await;
    let installed = Installation::create(&ns).await;
    let own = installed.controller().start().await;
    let ca = text(&installed.secrets().get(CA).await, "tls.crt");
    own.process().stop().await;

    let other = TestNamespace::new().await;
    let elsewhere = Installation::create(&other).await;
    let _other = elsewhere.controller().start().await;
    let foreign = text(&elsewhere.secrets().get(CA).await, "tls.crt");
    let file = ns.directory().join("ca.crt");
    std::fs::write(&file, &foreign).unwrap();
    let name = format!("--webhook-configuration={}", ns.name());
    let flags = [&*name, &format!("--ca-bundle={}", file.display())];
    let versions = installed.versions().await;
    let _controller = installed.electing_controller().flags(flags).start().await;
    eventually("both are trusted", async || {
        let registrations = installed.registrations().await;
        let expected = format!("{foreign}{ca}");
        if registrations.iter().all(|registration| ca_bundle(registration) == expected) {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    assert_eq!(installed.versions().await[..2], versions[..2], "no Secret is touched");
}
