//! The operator's two processes beside a cluster, registered by URL.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use webservice_api::constants::FIELD_MANAGER;
use webservice_api::{crd, rbac, registration};
use webservice_tests::cluster::process::{CommandLine, Daemon};
use webservice_tests::cluster::{Cluster, pki};

/// What one of our processes may take to start, and the API server to take up a CRD.
const START: Duration = Duration::from_mins(2);
/// What one of our processes may take to stop.
const STOP: Duration = Duration::from_secs(30);
/// Name of the registrations and of the role.
const NAME: &str = "webservice-operator";

/// The operator of one cluster.
pub(crate) struct Operator {
    cluster: Cluster,
}

impl Operator {
    /// The operator of this cluster, started or not.
    pub(crate) fn of(cluster: Cluster) -> Self {
        Self { cluster }
    }

    /// The cluster, without what knows how to start the operator.
    pub(crate) fn into_cluster(self) -> Cluster {
        self.cluster
    }

    /// Installs the CRD and waits until the API server serves it.
    pub(crate) async fn install_crd(&self) -> Result<()> {
        let client = self.cluster.client().await?;
        let definition = crd::crd()?;
        apply(&client, &definition).await?;
        let api: Api<CustomResourceDefinition> = Api::all(client);
        let name = definition.metadata.name.unwrap_or_default();
        timeout(START, await_condition(api, &name, is_crd_established()))
            .await
            .with_context(|| format!("CRD {name} is not established after {} s", START.as_secs()))??;
        Ok(())
    }

    /// Starts the webhook with a certificate of the cluster's authority, and registers it.
    pub(crate) async fn start_webhook(&self) -> Result<()> {
        let authority = self.cluster.authority()?;
        let pair = authority.issue(&pki::Subject::user("webservice-webhook"), &["127.0.0.1"])?;
        let tls = self.cluster.directory().join("webhook-tls");
        std::fs::create_dir_all(&tls)?;
        std::fs::write(tls.join("tls.crt"), &pair.certificate)?;
        std::fs::write(tls.join("tls.key"), &pair.key)?;
        let daemon = self.cluster.daemon("webhook");
        let command = CommandLine::new(program("webservice-webhook")?)
            .arg(format!("--cert-dir={}", tls.display()))
            .args(["--https-address=127.0.0.1:0", "--shutdown-lame-duck=0s"])
            .args(LOCAL);
        let https = launch(&daemon, &command, "https").await?;
        self.register(https, authority.certificate()).await
    }

    async fn register(&self, https: SocketAddr, ca: &str) -> Result<()> {
        let endpoint = |path: &str| WebhookClientConfig {
            url: Some(format!("https://{https}{path}")),
            ca_bundle: Some(ByteString(ca.as_bytes().to_vec())),
            service: None,
        };
        let client = self.cluster.client().await?;
        apply::<MutatingWebhookConfiguration>(&client, &registration::mutating(NAME, &endpoint, None))
            .await?;
        apply::<ValidatingWebhookConfiguration>(&client, &registration::validating(NAME, &endpoint, None))
            .await
    }

    /// Starts the controller with an account that has its rights and no others.
    pub(crate) async fn start_controller(&self) -> Result<()> {
        let client = self.cluster.client().await?;
        apply(
            &client,
            &ClusterRole { metadata: named(), rules: Some(rbac::controller()), ..ClusterRole::default() },
        )
        .await?;
        apply(&client, &binding()).await?;
        let user = pki::Subject::user(FIELD_MANAGER);
        let kubeconfig =
            self.cluster.authority()?.issue_kubeconfig(FIELD_MANAGER, &user, self.cluster.server())?;
        let command = CommandLine::new(program("webservice-controller")?)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(LOCAL);
        launch(&self.cluster.daemon("controller"), &command, "probes").await.map(drop)
    }

    /// Stops the controller.
    pub(crate) async fn stop_controller(&self) -> Result<()> {
        let daemon = self.cluster.daemon("controller");
        ensure!(daemon.process()?.is_some(), "the controller does not run");
        tokio::task::spawn_blocking(move || daemon.stop(STOP)).await?
    }
}

const LOCAL: [&str; 3] =
    ["--probe-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--log-format=json"];

/// Starts a process unless it runs, and gives the address that it logs under `field` once it listens.
async fn launch(daemon: &Daemon, command: &CommandLine, field: &str) -> Result<SocketAddr> {
    if daemon.process()?.is_none() {
        daemon.start(command)?;
    }
    daemon.ready(START, async || listening(daemon, field).map(drop)).await?;
    listening(daemon, field)
}

fn listening(daemon: &Daemon, field: &str) -> Result<SocketAddr> {
    let log = std::fs::read_to_string(daemon.log_path())?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    // A process that was started again has several such lines; the last one counts.
    match lines.filter(|line| line["message"] == "listening").reduce(|_, later| later) {
        Some(line) => Ok(line[field].as_str().unwrap_or_default().parse()?),
        None => bail!("it does not listen yet"),
    }
}

/// One of our programs, which cargo puts beside this one.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("failed to find where this program lies")?;
    let program = own.with_file_name(name);
    ensure!(
        program.is_file(),
        "{} is missing: build it with `cargo build --workspace --bins`",
        program.display()
    );
    Ok(program)
}

fn binding() -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "ClusterRole".into(),
            name: NAME.into(),
        },
        subjects: Some(vec![Subject {
            api_group: Some("rbac.authorization.k8s.io".into()),
            kind: "User".into(),
            name: FIELD_MANAGER.into(),
            ..Subject::default()
        }]),
    }
}

fn named() -> ObjectMeta {
    ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() }
}

async fn apply<K>(client: &Client, object: &K) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let name = object.meta().name.clone().unwrap_or_default();
    let api: Api<K> = Api::all(client.clone());
    api.patch(&name, &PatchParams::apply("xtask").force(), &Patch::Apply(object))
        .await
        .with_context(|| format!("failed to apply {} {name}", K::kind(&())))?;
    Ok(())
}
