//! The cluster that a test runs on: the suite's own, or a private one where the test changes what all namespaces share.

use std::env;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition;
use kube::{Api, Client};
use serde_json::to_value;
use tokio::sync::OnceCell;
use webservice_api::{WebService, crd};

use super::eventually::eventually;
use super::must::Must;
use super::namespace::TestNamespace;
use super::recorded::Recorded;
use crate::cluster::progress::Silent;
use crate::cluster::{Cluster, ClusterName, Health, Options, TemporaryCluster, Tier};

/// Names the suite's cluster.
const VARIABLE: &str = "WEBSERVICE_TEST_CLUSTER";
/// The longest that the API server may be silent.
const SILENCE: Duration = Duration::from_mins(1);

/// A running cluster and a client with the administrator's rights.
#[derive(Clone)]
pub struct TestCluster {
    cluster: Held,
    client: Client,
}

#[derive(Clone)]
enum Held {
    Shared(Cluster),
    Private(Arc<Recorded>),
}

impl TestCluster {
    /// The suite's cluster, with the CRD of this version installed.
    pub async fn shared() -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let name = env::var(VARIABLE).unwrap_or_else(|_| "test".into());
        let opened = open(&name).must(&format!(
            "find the suite's cluster (run `cargo xtask test`, or `cargo xtask cluster up --name {name}` first)"
        ));
        let client = client(&opened).await;
        INSTALLED.get_or_init(|| install(&client, current_crd())).await;
        Self { cluster: Held::Shared(opened), client }
    }

    /// A cluster for this test alone, without the CRD. It takes some seconds, and goes with the value.
    pub async fn private() -> Self {
        Self::private_with(&Options::default()).await
    }

    /// The same with something beyond the usual.
    pub async fn private_with(options: &Options) -> Self {
        let cluster = TemporaryCluster::up(Tier::ControlPlane, options, &Silent).await;
        let cluster = cluster.must("start a cluster");
        let client = client(&cluster).await;
        Self { cluster: Held::Private(Arc::new(Recorded(cluster))), client }
    }

    /// The same with the CRD of this version installed.
    pub async fn private_with_crd() -> Self {
        let cluster = Self::private().await;
        cluster.install(current_crd()).await;
        cluster
    }

    /// Whether no other test runs on it.
    pub(super) fn is_private(&self) -> bool {
        matches!(self.cluster, Held::Private(_))
    }

    /// Installs a CRD, over the one that is there, and waits until it is served.
    pub async fn install(&self, crd: CustomResourceDefinition) {
        install(&self.client, crd).await;
    }

    /// A namespace of this cluster.
    pub async fn namespace(&self) -> TestNamespace {
        TestNamespace::create(self.clone()).await
    }

    /// The administrator's client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match &self.cluster {
            Held::Shared(cluster) => cluster,
            Held::Private(cluster) => cluster,
        }
    }
}

/// The CRD of this version, as it is shipped.
pub(super) fn current_crd() -> CustomResourceDefinition {
    crd::crd().must("make the CRD")
}

fn open(name: &str) -> anyhow::Result<Cluster> {
    let cluster = Cluster::open(&name.parse::<ClusterName>()?)?;
    let health = cluster.status()?.health;
    anyhow::ensure!(health == Health::Running, "cluster {name} is {health:?}");
    Ok(cluster)
}

/// A client of its own for each test: its connections belong to the test's runtime and end with it.
pub(super) async fn client(cluster: &Cluster) -> Client {
    let mut config = cluster.config().await.must("read the cluster's kubeconfig");
    config.read_timeout = Some(SILENCE);
    config.default_retry = false;
    Client::try_from(config).must("make a client")
}

async fn install(client: &Client, crd: CustomResourceDefinition) {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let name = crd.metadata.name.clone().unwrap_or_default();
    let params = PatchParams::apply("webservice-tests").force();
    crds.patch(&name, &params, &Patch::Apply(&crd)).await.must("install the CRD");
    let webservices = Api::<WebService>::all(client.clone());
    eventually(&format!("CRD {name} is served"), async || {
        let installed = crds.get(&name).await.map_err(|error| error.to_string())?;
        if !is_crd_established().matches_object(Some(&installed)) {
            return Err(format!("{:?}", to_value(installed.status)));
        }
        webservices
            .list_metadata(&ListParams::default().limit(1))
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await;
}
