//! The chart on a real API server. No node is needed for what Helm and the API server have to say.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use webservice_certs::{Ca, Validity};
use webservice_tests::bed::Tool;
use webservice_tests::cluster::assets::Part;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::{HELM_4, cert_manager_crds};
use webservice_tests::cluster::{Cluster, Options, TemporaryCluster, Tier};
use webservice_tests::helm::{Answer, Helm};

use crate::helm::{EVERYTHING, MODES, Release, VERSIONS};

/// What one call of kubectl may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);
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

/// kubectl with manifests on standard input.
fn kubectl(cluster: &Cluster, arguments: &[&str], manifests: &str) -> Tool {
    Tool::new(cluster.kubectl()).args(arguments).input(manifests).within(PATIENCE)
}

fn list(items: &[&Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

async fn helm(cluster: &Cluster, version: &Part, arguments: &[String]) -> Answer {
    let helm = Helm::new(version, &Silent).await.unwrap().on(&cluster.kubeconfig_path());
    helm.run(arguments).await.unwrap()
}

#[tokio::test]
async fn the_api_server_takes_everything_that_is_rendered_without_a_warning() {
    let cluster = cluster(["ns", "shop"]).await;
    let crds = cert_manager_crds().await.unwrap().display().to_string();
    kubectl(&cluster, &["apply", "--server-side", "--filename", &crds], "").await.succeeds();

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
        kubectl(&cluster, &["apply", "--server-side", "--filename=-"], &accounts).await.succeeds();
        let is_known = |object: &&Value| UNKNOWN.iter().all(|kind| object["kind"] != *kind);
        let known = list(&manifests.all().iter().filter(is_known).collect::<Vec<_>>());
        let dry_run = ["apply", "--server-side", "--dry-run=server", "--filename=-"];
        let answer = kubectl(&cluster, &dry_run, &known).await;
        assert!(answer.code == Some(0) && answer.stderr.is_empty(), "{release:?}: {}", answer.stderr);
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
        let before = versions(&cluster).await;
        helm(&cluster, version, &release.command("upgrade")).await.unwrap();
        assert_eq!(before, versions(&cluster).await, "{}", version.name);
        let uninstall = ["uninstall", "r", "--no-hooks", "--namespace", "ns"].map(ToOwned::to_owned);
        helm(&cluster, version, &uninstall).await.unwrap();
    }
}

/// Kinds whose status is written at any time: of them it is the generation that must not move.
const WITH_STATUS: [&str; 3] = ["Deployment", "PodDisruptionBudget", "CustomResourceDefinition"];

/// The versions of all that the release consists of.
async fn versions(cluster: &Cluster) -> BTreeMap<String, String> {
    let kinds = "serviceaccounts,services,configmaps,deployments,poddisruptionbudgets,roles,rolebindings,clusterroles,\
                 clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,crds";
    let arguments =
        ["get", kinds, "--all-namespaces", "--selector=app.kubernetes.io/instance=r", "--output=json"];
    let list = kubectl(cluster, &arguments, "").await.json();
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

#[tokio::test]
async fn a_second_release_in_the_namespace_of_the_first_is_refused() {
    let cluster = cluster(["ns", "shop"]).await;
    helm(&cluster, &HELM_4, &Release::named("one", "ns").command("install")).await.unwrap();
    let second = Release::named("two", "ns").set(&["crds.enabled=false", "watchNamespaces={shop}"]);
    let refusal = helm(&cluster, &HELM_4, &second.command("install")).await.unwrap_err();
    assert!(refusal.contains("namespace ns: release one of this chart is in it already"), "{refusal}");
}

/// What the controller does.
async fn inject(cluster: &Cluster, bundle: &str) {
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let add = json!({
            "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": STANDARD.encode(bundle),
        });
        let patch = json!([add]).to_string();
        let name = "ns-r-webservice-operator-webhook";
        let manager = "--field-manager=webservice-controller";
        let arguments = ["patch", kind, name, manager, "--type=json", "--patch", &patch];
        kubectl(cluster, &arguments, "").await.succeeds();
    }
}

#[tokio::test]
async fn a_ca_bundle_of_the_user_takes_the_place_of_the_controllers_by_force_alone() {
    let cluster = cluster(["ns"]).await;
    let [own, other] = [(); 2].map(|()| {
        let life = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
        Ca::create(life).unwrap().certificate_pem().to_owned()
    });
    helm(&cluster, &HELM_4, &Release::named("r", "ns").command("install")).await.unwrap();
    inject(&cluster, &other).await;
    let mine = [
        "tls.mode=secret".to_owned(),
        "tls.secret.name=mine".to_owned(),
        format!("tls.secret.caBundle={own}"),
    ];
    let upgrade = Release::named("r", "ns").set(&mine.each_ref().map(String::as_str)).command("upgrade");
    let refusal = helm(&cluster, &HELM_4, &upgrade).await.unwrap_err();
    assert!(refusal.contains("conflict"), "{refusal}");
    helm(&cluster, &HELM_4, &[&upgrade[..], &["--force-conflicts".to_owned()]].concat()).await.unwrap();
}

#[tokio::test]
async fn a_removal_that_failed_half_way_is_taken_back_by_a_rollback() {
    let cluster = cluster(["ns"]).await;
    for version in VERSIONS {
        helm(&cluster, version, &Release::named("r", "ns").command("install")).await.unwrap();
        let before = versions(&cluster).await.into_keys().collect::<Vec<_>>();
        // Its Job finds no node. What it does first, in its place:
        let name = "ns-r-webservice-operator-webhook";
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
        kubectl(&cluster, &["delete", kinds, name], "").await.succeeds();
        let scale =
            ["scale", "deployment", "r-webservice-operator-controller", "--namespace=ns", "--replicas=0"];
        kubectl(&cluster, &scale, "").await.succeeds();
        let uninstall = ["uninstall", "r", "--namespace", "ns", "--timeout=5s"].map(ToOwned::to_owned);
        helm(&cluster, version, &uninstall).await.unwrap_err();

        let mut rollback = ["rollback", "r", "1", "--namespace", "ns"].map(ToOwned::to_owned).to_vec();
        rollback.extend((version.name == HELM_4.name).then(|| "--force-conflicts".to_owned()));
        helm(&cluster, version, &rollback).await.unwrap();
        let after = versions(&cluster).await.into_keys().collect::<Vec<_>>();
        assert_eq!(after.iter().filter(|one| before.contains(one)).count(), before.len(), "{after:?}");
        let replicas = [
            "get",
            "deployment",
            "r-webservice-operator-controller",
            "--namespace=ns",
            "--output=jsonpath={.spec.replicas}",
        ];
        assert_eq!(kubectl(&cluster, &replicas, "").await.stdout, "1", "{}", version.name);
        let remove = ["uninstall", "r", "--no-hooks", "--namespace", "ns"].map(ToOwned::to_owned);
        helm(&cluster, version, &remove).await.unwrap();
    }
}
