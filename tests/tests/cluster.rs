//! Clusters themselves: what the other suites take for granted.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::TryStreamExt;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{ObjectMeta, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use webservice_tests::cluster::pki::Credentials;
use webservice_tests::cluster::process::ProcessId;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::{Cluster, Options, TemporaryCluster, Tier};

async fn control_plane(api_server: &[&str]) -> Result<TemporaryCluster> {
    let api_server = api_server.iter().map(ToString::to_string).collect();
    let options = Options { api_server, ..Options::default() };
    TemporaryCluster::up(Tier::ControlPlane, &options, &Silent).await
}

fn processes(cluster: &Cluster) -> Vec<ProcessId> {
    let daemons = cluster.status().unwrap().daemons;
    daemons.iter().filter_map(|daemon| ProcessId::of(daemon.pid?.try_into().ok()?)).collect()
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

/// A client for the service account `default` of the namespace `default`.
async fn service_account_client(cluster: &Cluster) -> Result<Client> {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client().await?, "default");
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let token = accounts.create_token_request("default", &PostParams::default(), &request).await?;
    let credentials = Credentials::Token(token.status.unwrap().token);
    let kubeconfig = cluster.authority()?.kubeconfig(cluster.server(), &credentials);
    let parsed = Kubeconfig::from_yaml(&kubeconfig)?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?)?)
}

#[tokio::test]
async fn a_temporary_cluster_goes_with_its_value() {
    let cluster = control_plane(&[]).await.unwrap();
    let processes = processes(&cluster);
    let directory = cluster.directory().to_owned();
    assert_eq!(processes.len(), 3);

    drop(cluster);

    assert!(!directory.exists());
    assert!(processes.into_iter().all(|process| !process.is_alive()));
}

#[tokio::test]
async fn a_start_that_fails_shows_why_and_leaves_nothing() {
    let error = control_plane(&["--no-such-flag"]).await.unwrap_err().to_string();
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");

    let ours = format!("tmp-{}-", std::process::id());
    let log = error.lines().find_map(|line| line.strip_prefix("last lines of ")).unwrap();
    assert!(log.contains(&ours) && !std::path::Path::new(log.trim_end_matches(':')).exists(), "{log}");
}

#[tokio::test]
async fn the_api_server_restarts_at_its_address_with_its_data_although_somebody_watches() {
    let cluster = control_plane(&[]).await.unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(cluster.client().await.unwrap(), "default");
    config_maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let watch = config_maps.watch(&WatchParams::default(), "0").await.unwrap();
    let mut watch = std::pin::pin!(watch);
    watch.try_next().await.unwrap();

    let asked = Instant::now();
    cluster.stop_api_server().await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(55), "a watch held it up for {:?}", asked.elapsed());
    cluster.start_api_server().await.unwrap();

    config_maps.get("kept").await.unwrap();
}

#[tokio::test]
async fn more_flags_reach_the_api_server() {
    let cluster = control_plane(&["--enable-admission-plugins=NamespaceAutoProvision"]).await.unwrap();
    let nowhere = Api::<ConfigMap>::namespaced(cluster.client().await.unwrap(), "not-there-yet");
    nowhere.create(&PostParams::default(), &config_map("first")).await.unwrap();
}

#[tokio::test]
async fn a_service_account_has_its_own_name_no_rights_and_a_place_in_the_audit_log() {
    let cluster = control_plane(&[]).await.unwrap();
    let client = service_account_client(&cluster).await.unwrap();

    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let me = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = me.status.unwrap().user_info.unwrap().username.unwrap();
    assert_eq!(user, "system:serviceaccount:default:default");

    let secrets = Api::<Secret>::namespaced(client, "default");
    let refused = secrets.get("anything").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");

    // The line may be written a moment after the answer was sent.
    let refusal_is_logged = async {
        let is_refusal = |line: &str| line.contains(&user) && line.contains(r#""code":403"#);
        while !std::fs::read_to_string(cluster.audit_log_path()).unwrap().lines().any(is_refusal) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), refusal_is_logged).await.unwrap();
}
