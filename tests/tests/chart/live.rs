//! The chart on a real API server. No node is needed for what Helm and the API server have to say.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Output, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use webservice_tests::cluster::assets::{self, Part};
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::HELM_4;
use webservice_tests::cluster::{Cluster, Options, TemporaryCluster, Tier};
use webservice_tests::helm::Helm;

use crate::helm::{EVERYTHING, MODES, Release, VERSIONS};

/// Kinds whose definition no Go module here has.
const UNKNOWN: [&str; 2] = ["ServiceMonitor", "PrometheusRule"];

/// A cluster with these namespaces, in which the strictest standard for pods is asked for.
async fn cluster<const N: usize>(namespaces: [&str; N]) -> TemporaryCluster {
    let cluster = TemporaryCluster::up(Tier::ControlPlane, &Options::default(), &Silent).await.unwrap();
    let api = Api::<Namespace>::all(cluster.client().await.unwrap());
    for name in namespaces {
        let restricted = ["enforce", "warn"]
            .map(|mode| (format!("pod-security.kubernetes.io/{mode}"), json!("restricted")));
        let labels: BTreeMap<_, _> = restricted.into();
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        api.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    }
    cluster
}

/// Hands manifests to kubectl.
fn kubectl(cluster: &Cluster, arguments: &[&str], manifests: &str) -> Output {
    let mut command = cluster.kubectl();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(manifests.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn list(items: &[&Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

async fn helm(cluster: &Cluster, version: &Part, arguments: &[String]) -> Result<String, String> {
    let helm = Helm::new(version, &Silent).await.unwrap().on(&cluster.kubeconfig_path());
    let output = helm.run(arguments).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[tokio::test]
async fn the_api_server_takes_everything_that_is_rendered_without_a_warning() {
    let cluster = cluster(["ns", "shop"]).await;
    let sources = assets::sources("cert-manager", "github.com/cert-manager/cert-manager").await.unwrap();
    let crds = sources.join("deploy/crds").display().to_string();
    let applied = kubectl(&cluster, &["apply", "--server-side", "--filename", &crds], "");
    assert!(applied.status.success(), "{applied:?}");

    let release = || Release::named("r", "ns");
    let mut releases = vec![
        release(),
        release().values("values-ha.yaml"),
        release().values("values-staging.yaml"),
        release().set(&["watchNamespaces={shop}"]),
    ];
    releases.extend(MODES.map(|mode| release().set(EVERYTHING).set(mode)));
    for release in releases {
        let manifests = release.render().await;
        // A pod is refused while its account is missing.
        let accounts = list(&manifests.of("ServiceAccount"));
        let applied = kubectl(&cluster, &["apply", "--server-side", "--filename=-"], &accounts);
        assert!(applied.status.success(), "{applied:?}");
        let is_known = |object: &&Value| UNKNOWN.iter().all(|kind| object["kind"] != *kind);
        let known = list(&manifests.all().iter().filter(is_known).collect::<Vec<_>>());
        let answer =
            kubectl(&cluster, &["apply", "--server-side", "--dry-run=server", "--filename=-"], &known);
        let said = String::from_utf8(answer.stderr).unwrap();
        assert!(answer.status.success() && said.is_empty(), "{release:?}: {said}");
    }
}

#[tokio::test]
async fn a_second_release_is_refused_with_the_crd_and_works_beside_the_first_without_it() {
    let cluster = cluster(["one", "two", "shop"]).await;
    for version in VERSIONS {
        let first = Release::named("r", "one").set(&["watchNamespaces={one}"]);
        helm(&cluster, version, &first.command("install")).await.unwrap();
        let refusal =
            helm(&cluster, version, &Release::named("r", "two").command("install")).await.unwrap_err();
        assert!(refusal.contains("belongs to release r in namespace one"), "{}: {refusal}", version.name);
        assert!(refusal.contains("set crds.enabled=false and watchNamespaces"), "{refusal}");
        let beside = Release::named("r", "two").set(&["crds.enabled=false", "watchNamespaces={shop}"]);
        helm(&cluster, version, &beside.command("install")).await.unwrap();
        for namespace in ["one", "two"] {
            // The removal's own step needs a node.
            let uninstall = ["uninstall", "r", "--no-hooks", "--namespace", namespace].map(ToOwned::to_owned);
            helm(&cluster, version, &uninstall).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_upgrade_that_changes_nothing_writes_nothing() {
    let cluster = cluster(["ns"]).await;
    for version in VERSIONS {
        let release = Release::named("r", "ns").set(&["webhook.policy.allowedTiers={dev}"]);
        helm(&cluster, version, &release.command("install")).await.unwrap();
        let before = versions(&cluster);
        helm(&cluster, version, &release.command("upgrade")).await.unwrap();
        assert_eq!(before, versions(&cluster), "{}", version.name);
        let uninstall = ["uninstall", "r", "--no-hooks", "--namespace", "ns"].map(ToOwned::to_owned);
        helm(&cluster, version, &uninstall).await.unwrap();
    }
}

/// Kinds whose status is written at any time: of them it is the generation that must not move.
const WITH_STATUS: [&str; 3] = ["Deployment", "PodDisruptionBudget", "CustomResourceDefinition"];

/// The versions of all that the release consists of.
fn versions(cluster: &Cluster) -> BTreeMap<String, String> {
    let kinds = "serviceaccounts,services,configmaps,deployments,poddisruptionbudgets,roles,rolebindings,clusterroles,\
                 clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,crds";
    let arguments =
        ["get", kinds, "--all-namespaces", "--selector=app.kubernetes.io/instance=r", "--output=json"];
    let answer = kubectl(cluster, &arguments, "");
    let list: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let version = |object: &Value| {
        let metadata = &object["metadata"];
        let has_status = WITH_STATUS.iter().any(|kind| object["kind"] == *kind);
        let version = if has_status { "generation" } else { "resourceVersion" };
        (format!("{} {}", object["kind"], metadata["name"]), metadata[version].to_string())
    };
    let versions: BTreeMap<_, _> = list["items"].as_array().unwrap().iter().map(version).collect();
    assert!(versions.len() > 15, "{versions:?}");
    versions
}

#[tokio::test]
async fn a_cluster_without_cert_manager_says_so_before_anything_is_made() {
    let cluster = cluster(["ns"]).await;
    let refusal = helm(&cluster, &HELM_4, &Release::named("r", "ns").set(MODES[1]).command("install")).await;
    assert!(
        refusal.as_ref().unwrap_err().contains("cert-manager is not installed in this cluster"),
        "{refusal:?}"
    );
}
