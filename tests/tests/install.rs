//! The chart on a real node: pods from the operator's image, which the API server calls through a Service. Needs root.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use webservice_api::WebService;
use webservice_api::constants::FINALIZER;
use webservice_certs::{CERTIFICATE_FILE, Ca, KEY_FILE, Validity};
use webservice_tests::bed::{eventually, is_ready, webservice};
use webservice_tests::cluster::assets::{self, Part};
use webservice_tests::cluster::process::CommandLine;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::{CERT_MANAGER, HELM_3, HELM_4};
use webservice_tests::cluster::{Options, TemporaryCluster, Tier};
use webservice_tests::helm::{Helm, chart};
use webservice_tests::operator_image::{self, Profile};

const IMAGE: &str = "localhost/webservice-operator:test";
const NAMESPACE: &str = "webservice-system";
const RELEASE: &str = "webservice-operator";
const TLS_SECRET: &str = "own-pki";

/// A cluster whose node has the operator's image, and a namespace for it that admits nothing but restricted pods.
async fn node() -> (TemporaryCluster, Client) {
    let options = Options::default();
    let (image, cluster) = tokio::join!(
        operator_image::build(IMAGE, Profile::Dev),
        TemporaryCluster::up(Tier::Node, &options, &Silent)
    );
    let cluster = cluster.unwrap();
    cluster.load_image(&image.unwrap()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = json!({"metadata": {"name": NAMESPACE, "labels": labels}});
    create::<Namespace>(&Api::all(client.clone()), namespace).await;
    (cluster, client)
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// A Secret with a certificate of somebody's own PKI, and a file with the CA to trust.
async fn own_certificate(client: &Client) -> NamedTempFile {
    let validity = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
    let authority = Ca::create(validity).unwrap();
    let host = format!("{RELEASE}-webhook.{NAMESPACE}.svc");
    let leaf = authority.issue(&[&host], validity).unwrap();
    let data = json!({CERTIFICATE_FILE: leaf.certificate_pem(), KEY_FILE: leaf.key_pem()});
    let secret = json!({"metadata": {"name": TLS_SECRET}, "type": "kubernetes.io/tls", "stringData": data});
    create::<Secret>(&Api::namespaced(client.clone(), NAMESPACE), secret).await;
    let ca = NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.certificate_pem()).unwrap();
    ca
}

/// The values by which the release takes that Secret and trusts that CA.
fn own_values(ca: &Path) -> (String, String) {
    (
        format!("--set=tls.mode=secret,tls.secret.name={TLS_SECRET}"),
        format!("--set-file=tls.secret.caBundle={}", ca.display()),
    )
}

/// Runs a command of Helm about the release.
async fn try_helm(cluster: &TemporaryCluster, version: &Part, arguments: &[&str]) -> Output {
    let helm = Helm::new(version, &Silent).await.unwrap().on(&cluster.kubeconfig_path());
    helm.run(arguments).await.unwrap()
}

/// The same, and it must succeed.
async fn helm(cluster: &TemporaryCluster, version: &Part, arguments: &[&str]) {
    let output = try_helm(cluster, version, arguments).await;
    assert!(output.status.success(), "{}: {}", version.name, String::from_utf8_lossy(&output.stderr));
}

/// `helm install` or `upgrade`, until everything is ready.
async fn deploy(cluster: &TemporaryCluster, version: &Part, command: &str, values: &[&str]) {
    let chart = chart().display().to_string();
    let (repository, tag) = IMAGE.rsplit_once(':').unwrap();
    let image = format!("--set=image.repository={repository},image.tag={tag},image.pullPolicy=Never");
    let what = [command, RELEASE, &chart, "--namespace", NAMESPACE, "--wait", "--timeout=2m", &image];
    helm(cluster, version, &[&what, values].concat()).await;
}

fn webservices(client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "default", &ApiResource::erase::<WebService>(&()))
}

/// Creates a WebService, and gives what the API server has made of it.
async fn apply(client: &Client, object: impl Into<Value>) -> kube::Result<Value> {
    let object: DynamicObject = serde_json::from_value(object.into()).unwrap();
    let stored = webservices(client).create(&PostParams::default(), &object).await?;
    Ok(serde_json::to_value(stored).unwrap())
}

async fn await_ready(client: &Client, name: &str) {
    eventually("the WebService is Ready", async || {
        let object = serde_json::to_value(webservices(client).get(name).await.unwrap()).unwrap();
        if is_ready(&object) { Ok(()) } else { Err(object["status"].to_string()) }
    })
    .await;
}

/// The uid of every pod of the release, and how often its container was started again.
async fn pods(client: &Client) -> Vec<(String, i32)> {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await.unwrap();
    let restarts = |pod: &Pod| Some(pod.status.as_ref()?.container_statuses.as_ref()?.first()?.restart_count);
    let mut pods: Vec<_> = pods
        .iter()
        .map(|pod| (pod.metadata.uid.clone().unwrap(), restarts(pod).unwrap_or_default()))
        .collect();
    pods.sort();
    pods
}

/// What people do first.
async fn assert_works(client: &Client, name: &str) {
    let stored = apply(client, webservice(name)).await.unwrap();
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["spec"]["tier"]),
        (&json!(1), &json!("dev")),
        "{stored}"
    );
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]), "{stored}");
    // The schema takes it, so it is the webhook that does not.
    let refusal = apply(client, webservice("knot").depends_on(["knot"])).await.unwrap_err().to_string();
    assert!(refusal.contains("validate.webservices.apps.labhub.io"), "{refusal}");
    await_ready(client, name).await;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let child = maps.get(&format!("{name}-desired")).await.unwrap();
    assert_eq!(child.data.unwrap()["image"], "nginx:1.27");
}

#[tokio::test]
async fn the_first_webservice_after_an_installation_is_completed_checked_and_ready() {
    let (cluster, client) = node().await;
    let ca = own_certificate(&client).await;
    let (secret, bundle) = own_values(ca.path());
    let values = [secret.as_str(), bundle.as_str()];
    for version in [&HELM_4, &HELM_3] {
        let started = Instant::now();
        deploy(&cluster, version, "install", &values).await;
        let installed = started.elapsed();
        assert_works(&client, &format!("checkout-{}", version.name)).await;
        report(version, installed, started.elapsed());

        let before = pods(&client).await;
        deploy(&cluster, version, "upgrade", &values).await;
        assert_eq!(pods(&client).await, before, "an upgrade that changes nothing restarts nothing");
        assert!(before.len() == 3 && before.iter().all(|(_, restarts)| *restarts == 0), "{before:?}");
        helm(&cluster, version, &["uninstall", RELEASE, "--namespace", NAMESPACE, "--no-hooks", "--wait"])
            .await;
    }
}

#[tokio::test]
async fn certificates_of_cert_manager_are_trusted_by_the_time_the_installation_ends() {
    let (cluster, client) = node().await;
    start_cert_manager(&cluster).await;
    let started = Instant::now();
    deploy(&cluster, &HELM_4, "install", &["--set=tls.mode=cert-manager"]).await;
    let installed = started.elapsed();
    assert_works(&client, "checkout").await;
    report(&HELM_4, installed, started.elapsed());
}

#[tokio::test]
async fn an_upgrade_to_an_image_that_is_missing_holds_up_no_write() {
    let (cluster, client) = node().await;
    let ca = own_certificate(&client).await;
    let (secret, bundle) = own_values(ca.path());
    deploy(&cluster, &HELM_4, "install", &[&secret, &bundle]).await;
    let before = pods(&client).await;

    let chart = chart().display().to_string();
    let upgrade =
        ["upgrade", RELEASE, &chart, "--namespace", NAMESPACE, "--reuse-values", "--set=image.tag=missing"];
    let failed = try_helm(&cluster, &HELM_4, &[&upgrade[..], &["--wait", "--timeout=10s"]].concat()).await;
    assert!(!failed.status.success(), "{failed:?}");
    assert_works(&client, "checkout").await;

    helm(&cluster, &HELM_4, &["rollback", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout=2m"]).await;
    eventually("the pods are those of the first revision", async || {
        let now = pods(&client).await;
        if now == before { Ok(()) } else { Err(format!("{now:?}, and before {before:?}")) }
    })
    .await;
}

/// The real cert-manager, beside the cluster: it calls the API server and is called by nobody.
async fn start_cert_manager(cluster: &TemporaryCluster) {
    let sources = assets::sources("cert-manager", "github.com/cert-manager/cert-manager").await.unwrap();
    let crds = sources.join("deploy/crds");
    let applied =
        cluster.kubectl().args(["apply", "--server-side", "--filename"]).arg(crds).output().unwrap();
    assert!(applied.status.success(), "{applied:?}");
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    assert!(cluster.kubectl().args(wait).output().unwrap().status.success());
    let program = assets::program(&CERT_MANAGER, &Silent).await.unwrap();
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig_path().display());
    cluster.daemon("cert-manager").start(&CommandLine::new(program).arg(kubeconfig)).unwrap();
}

fn report(version: &Part, installed: Duration, ready: Duration) {
    println!(
        "{}: install {:.1} s, first WebService Ready after {:.1} s",
        version.name,
        installed.as_secs_f64(),
        ready.as_secs_f64()
    );
}
