//! Who may read the metrics of a controller that asks the API server about its readers.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Resource};
use webservice_api::rbac::{self, Names};
use webservice_certs::{CERTIFICATE_FILE, Ca, KEY_FILE, Validity};
use webservice_tests::bed::{Rights, TestNamespace, eventually, kubeconfig_with};

/// Gives an account of the namespace these rights in the whole cluster, for as long as the namespace is there.
async fn grant_everywhere(ns: &TestNamespace, account: &str, rules: Vec<PolicyRule>) {
    let name = format!("{}-{account}", ns.name());
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Namespace".into(),
        name: ns.name().into(),
        uid: ns.uid().into(),
        ..OwnerReference::default()
    };
    let metadata =
        ObjectMeta { name: Some(name.clone()), owner_references: Some(vec![owner]), ..ObjectMeta::default() };
    let role = ClusterRole { metadata: metadata.clone(), rules: Some(rules), ..ClusterRole::default() };
    let binding = ClusterRoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: ClusterRole::group(&()).into_owned(),
            kind: ClusterRole::kind(&()).into_owned(),
            name,
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: account.into(),
            namespace: Some(ns.name().into()),
            ..Subject::default()
        }]),
    };
    Api::all(ns.client().clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(ns.client().clone()).create(&PostParams::default(), &binding).await.unwrap();
}

/// A token of a new account.
async fn token(ns: &TestNamespace, account: &str) -> String {
    ns.kubectl(["create", "serviceaccount", account]).await.succeeds();
    ns.kubectl(["create", "token", account]).await.succeeds().stdout.trim().to_owned()
}

#[tokio::test]
async fn with_authentication_only_an_account_that_may_get_the_metrics_reads_them() {
    let ns = TestNamespace::new().await;
    let rights = Rights { here: &["controller"], in_cluster: &["metrics-auth"], names: Names::default() };
    let asking = kubeconfig_with(&ns, "asking", &rights).await;
    grant_everywhere(&ns, "prometheus", rbac::metrics_reader()).await;
    let (reader, stranger) = (token(&ns, "prometheus").await, token(&ns, "stranger").await);
    let controller = ns.controller().kubeconfig(asking).flags(["--metrics-auth"]).start().await;

    eventually("the reader reads", async || match controller.scrape(Some(&reader)).await {
        (200, text) if text.contains("controller_runtime_reconcile_total") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    for (token, code, told) in [
        (None, 401, "there is no token"),
        (Some("made up"), 401, "does not know the token"),
        (Some(&*stranger), 403, ":stranger may not read this; bind the account"),
    ] {
        let (status, text) = eventually("it is decided", async || match controller.scrape(token).await {
            (503, text) => Err(text),
            decided => Ok(decided),
        })
        .await;
        assert!(status == code && text.contains(told), "{status} {text}");
    }
}

#[tokio::test]
async fn without_the_right_to_ask_nobody_reads_and_the_reason_is_told() {
    let ns = TestNamespace::new().await;
    ns.announce_missing_rights().await;
    let reader = token(&ns, "prometheus").await;
    let controller = ns.controller().flags(["--metrics-auth"]).start().await;
    let (status, text) = controller.scrape(Some(&reader)).await;
    assert!(status == 503 && text.contains("tokenreviews"), "{status} {text}");
}

#[tokio::test]
async fn a_certificate_of_ones_own_is_served_without_authentication() {
    let ns = TestNamespace::new().await;
    let validity = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
    let leaf = Ca::create(validity).unwrap().issue(&["127.0.0.1"], validity).unwrap();
    let tls = ns.directory().join("metrics-tls");
    fs::create_dir_all(&tls).unwrap();
    fs::write(tls.join(CERTIFICATE_FILE), leaf.certificate_pem()).unwrap();
    fs::write(tls.join(KEY_FILE), leaf.key_pem()).unwrap();
    let flag = format!("--metrics-tls-dir={}", tls.display());
    let controller = ns.controller().flags([&*flag]).start().await;
    assert_eq!(controller.scrape(None).await.0, 200);
}
