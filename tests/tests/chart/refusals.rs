use std::collections::BTreeSet;

use serde_json::Value;
use webservice_api::rules::Policy;
use webservice_tests::cluster::tools::HELM_4;
use webservice_tests::helm::chart;

use crate::helm::{Release, VERSIONS};

/// Values that make no sense, and what the refusal says.
const REFUSED: &[(&[&str], &[&str])] = &[
    (&["webhook.replica=3"], &["/webhook", "replica"]),
    (&["tsl.mode=secret"], &["tsl"]),
    (&["webhook.replicas=0"], &["/webhook/replicas"]),
    (&["webhook.validating.failurePolicy=fail"], &["failurePolicy", "Fail"]),
    (&["webhook.validating.timeoutSeconds=31"], &["timeoutSeconds", "30"]),
    (&["tls.mode=cert-manger"], &["/tls/mode", "cert-manager"]),
    (&["watchNamespaces={a,a}"], &["watchNamespaces"]),
    (&["webhook.policy.maxReplica=3"], &["/webhook/policy", "maxReplica"]),
    (&["webhook.policy.levels.image-registry=deny"], &["image-registry", "enforce"]),
    (&["webhook.policy.levels.image-registy=warn"], &["/webhook/policy/levels", "'image-registy'"]),
    (&["webhook.policy.allowedTiers={Prod}"], &["/webhook/policy/allowedTiers"]),
    (&["webhook.policy.maxReplicas.overall=2147483648"], &["/webhook/policy/maxReplicas/overall"]),
    (&["webhook.policy.maxReplicas.tiers.Prod=3"], &["/webhook/policy/maxReplicas/tiers"]),
    (&["networkPolicy.apiServerPorts={}"], &["/networkPolicy/apiServerPorts"]),
    (&["networkPolicy.apiServerPorts=null"], &["/networkPolicy", "apiServerPorts"]),
    (&["tls.mode=cert-manager", "tls.certManager.issuerRef.kind=ClusterIssuer"], &["issuerRef", "name"]),
    (
        &["tls.selfManaged.caLifetime=24h"],
        &["tls.selfManaged.caLifetime: 24h is shorter than leafLifetime (720h)"],
    ),
    (
        &["webhook.autoscaling.enabled=true", "webhook.resources.requests.cpu=null"],
        &["set webhook.resources.requests.cpu"],
    ),
    (
        &[r"monitoring.dashboard.labels.helm\.sh/chart=mine"],
        &["monitoring.dashboard.labels: helm.sh/chart is a label"],
    ),
    (&["controller.extraArgs={leader-elect}"], &["extraArgs"]),
    (&["tls.selfManaged.leafLifetime=5m"], &["/tls/selfManaged/leafLifetime"]),
    (
        &[r"webhook.podLabels.app\.kubernetes\.io/component=mine"],
        &["webhook.podLabels: app.kubernetes.io/component is a label that the chart sets itself"],
    ),
    (&[r"commonLabels.helm\.sh/chart=mine"], &["commonLabels: helm.sh/chart is a label"]),
    (&["image.digest=sha256:12"], &["/image/digest"]),
    (&["tls.mode=secret"], &["tls.secret.name: tls.mode=secret needs the name of your Secret"]),
    (
        &["tls.mode=secret", "tls.secret.name=mine", "tls.secret.caBundle=-----BEGIN PRIVATE KEY-----"],
        &["tls.secret.caBundle: it must hold certificates in PEM, and nothing secret"],
    ),
    (&["tls.secret.name=mine"], &["tls.secret: it has no effect with tls.mode=self-managed"]),
    (
        &["tls.certManager.issuerRef.name=x"],
        &["tls.certManager: it has no effect with tls.mode=self-managed"],
    ),
    (
        &["tls.mode=cert-manager", "tls.certManager.issuerRef.name=x", "tls.certManager.caSecretName=y"],
        &["tls.certManager.caSecretName: an issuer of yours"],
    ),
    (
        &["webhook.autoscaling.enabled=true", "webhook.autoscaling.minReplicas=9"],
        &["webhook.autoscaling.minReplicas: 9 is above maxReplicas (5)"],
    ),
    (&["webhook.clientCertificate.names={kube-apiserver}"], &["set webhook.clientCertificate.configMapName"]),
    (&["monitoring.prometheusRule.enabled=true"], &["set monitoring.serviceMonitor.enabled=true"]),
];

#[tokio::test]
async fn values_that_make_no_sense_are_refused_with_a_sentence() {
    for version in VERSIONS {
        for (values, expected) in REFUSED {
            let refusal = Release::new().set(values).try_text(version).await;
            let refusal = refusal.expect_err(&format!("{} takes {values:?}", version.name));
            assert!(
                expected.iter().all(|words| refusal.contains(words)),
                "{} {values:?}: {refusal}",
                version.name
            );
        }
    }
}

#[tokio::test]
async fn a_cluster_without_cert_manager_is_told_early() {
    // What a live API server lists, and no template without one.
    let live = Release::new().set(&["tls.mode=cert-manager"]).argument("--api-versions=apps/v1/Deployment");
    let refusal = live.try_text(&HELM_4).await.unwrap_err();
    assert!(refusal.contains("cert-manager is not installed in this cluster"), "{refusal}");
    live.argument("--api-versions=cert-manager.io/v1/Certificate").text().await;
}

#[tokio::test]
async fn a_kubernetes_that_is_too_old_is_refused() {
    let refusal = Release::new().argument("--kube-version=1.32.0").try_text(&HELM_4).await.unwrap_err();
    assert!(refusal.contains(">=1.33.0-0"), "{refusal}");
    Release::new().argument("--kube-version=1.33.1").text().await;
}

#[tokio::test]
async fn schema_and_values_know_the_same_keys() {
    let read = |file| std::fs::read_to_string(chart().join(file)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let unknown = missing(&schema, &schema, &values, "");
    // Groups that are empty by default, and what Helm gives to every chart.
    let expected = [
        "/global",
        "/tls/certManager/issuerRef/group",
        "/tls/certManager/issuerRef/kind",
        "/tls/certManager/issuerRef/name",
        "/webhook/policy/allowedRegistries",
        "/webhook/policy/allowedTiers",
        "/webhook/policy/levels",
        "/webhook/policy/maxReplicas",
    ];
    assert_eq!(unknown, expected);
}

#[tokio::test]
async fn values_that_make_sense_though_something_is_left_out_are_taken() {
    for values in [
        &["monitoring.dashboard.enabled=true", "monitoring.dashboard.labels=null"][..],
        &[
            "webhook.autoscaling.enabled=true",
            "webhook.resources.requests.cpu=null",
            "webhook.resources.limits.cpu=1",
        ],
        &["tls.certManager.caLifetime=24h"],
        &["tls.mode=cert-manager", "tls.certManager.issuerRef.name=x", "tls.certManager.caLifetime=24h"],
    ] {
        Release::new().set(values).text().await;
    }
}

#[test]
fn schema_and_program_know_the_same_rules_of_policies() {
    let schema = std::fs::read_to_string(chart().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let levels = schema.pointer("/properties/webhook/properties/policy/properties/levels").unwrap();
    let listed: BTreeSet<_> = levels["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let refusal = Policy::parse(b"levels: {none: warn}").unwrap_err().to_string();
    let (_, known) = refusal.split_once("rules with a level are ").unwrap();
    assert_eq!(listed, known.split(", ").collect());
}

/// Paths of keys that the schema has and the values have not.
fn missing(root: &Value, schema: &Value, values: &Value, path: &str) -> Vec<String> {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let mut paths = Vec::new();
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{key}");
        match values.get(key) {
            Some(value) => paths.extend(missing(root, schema, value, &path)),
            None => paths.push(path),
        }
    }
    paths.sort();
    paths
}
