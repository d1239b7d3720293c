use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::helm::{EVERYTHING, MODES, Release, name, strings};

#[tokio::test]
async fn a_ca_bundle_is_rendered_only_where_the_user_gives_it() {
    for mode in &MODES[..3] {
        let text = Release::new().set(EVERYTHING).set(mode).text().await;
        assert!(!text.contains("caBundle:"), "{mode:?}");
    }
    let manifests = Release::new().set(MODES[3]).render().await;
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let given = &manifests.one(kind, "")["webhooks"][0]["clientConfig"]["caBundle"];
        assert_eq!(given, &STANDARD.encode("-----BEGIN CERTIFICATE-----\n"));
    }
}

#[tokio::test]
async fn no_manifest_has_a_secret() {
    for mode in MODES {
        assert!(Release::new().set(EVERYTHING).set(mode).render().await.of("Secret").is_empty(), "{mode:?}");
    }
}

#[tokio::test]
async fn cert_manager_signs_short_lived_leaves_by_a_ca_that_keeps_its_key() {
    let manifests = Release::new().set(MODES[1]).render().await;
    let (ca, leaf) =
        (&manifests.one("Certificate", "-ca")["spec"], &manifests.one("Certificate", "-tls")["spec"]);
    assert_eq!((&ca["isCA"], &ca["privateKey"]["rotationPolicy"]), (&true.into(), &"Never".into()));
    assert_eq!(ca["commonName"], webservice_certs::COMMON_NAME, "self-managed mode takes the CA over");
    assert_eq!(leaf["privateKey"]["rotationPolicy"], "Always");
    let issuer = manifests.one("Issuer", "-issuer");
    assert_eq!(leaf["issuerRef"]["name"], name(issuer));
    assert_eq!(issuer["spec"]["ca"]["secretName"], ca["secretName"]);
}

#[tokio::test]
async fn the_injector_takes_the_ca_that_signs() {
    let annotation = async |values: &[&str], key: &str| {
        let manifests = Release::named("r", "ns").set(MODES[1]).set(values).render().await;
        let annotations = &manifests.one("ValidatingWebhookConfiguration", "")["metadata"]["annotations"];
        annotations[format!("cert-manager.io/{key}")].as_str().unwrap().to_owned()
    };
    assert_eq!(annotation(&[], "inject-ca-from").await, "ns/r-webservice-operator-ca");
    let issuer = &["tls.certManager.issuerRef.name=mine"];
    assert_eq!(annotation(issuer, "inject-ca-from").await, "ns/r-webservice-operator-tls");
    let trust = &["tls.certManager.trustSecretName=both"];
    assert_eq!(annotation(trust, "inject-ca-from-secret").await, "ns/both");
}

#[tokio::test]
async fn self_managed_and_cert_manager_share_their_secrets() {
    let secret = async |mode: &[&str]| {
        let manifests = Release::new().set(mode).render().await;
        manifests.one("Deployment", "-webhook")["spec"]["template"]["spec"]["volumes"][0]["secret"].clone()
    };
    assert_eq!(secret(MODES[0]).await, secret(MODES[1]).await);
    let manifests = Release::new().set(MODES[0]).render().await;
    let controller = &manifests.one("Deployment", "-controller")["spec"]["template"]["spec"]["containers"][0];
    assert!(strings(&controller["args"]).contains(&"--ca-secret=webservice-operator-ca"));
    let manifests = Release::new().set(MODES[1]).render().await;
    assert_eq!(name(manifests.one("Certificate", "-ca")), "webservice-operator-ca");
}

#[tokio::test]
async fn of_the_users_secret_the_controller_sees_the_ca_alone() {
    let manifests = Release::new().set(MODES[2]).render().await;
    let volumes = &manifests.one("Deployment", "-controller")["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["secret"]["items"], serde_json::json!([{"key": "ca.crt", "path": "ca.crt"}]));
}

#[tokio::test]
async fn a_ca_that_the_user_gives_is_nothing_to_the_controller() {
    let manifests = Release::new().set(MODES[3]).render().await;
    let controller = manifests.one("Deployment", "-controller").to_string();
    assert!(!controller.contains("mine") && !controller.contains("ca-bundle"), "{controller}");
    let rights = manifests.one("ClusterRole", "-registration").to_string();
    assert!(!rights.contains("patch"), "{rights}");
}
