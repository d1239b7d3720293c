//! A real Kubernetes without containers or downloads, as often as it is needed, side by side by name.
//!
//! A cluster is a handful of ordinary processes and one directory. [`Cluster::up`] starts them and returns when they
//! are ready, [`Cluster::open`] finds them again from any other process, and [`Cluster::down`] leaves nothing behind.

pub mod assets;
pub mod control_plane;
mod files;
mod go;
mod lock;
mod node;
pub mod pki;
pub mod process;
pub mod progress;
pub mod state;
mod status;
mod temporary;
pub mod tools;
pub mod tree;
mod version;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use self::assets::Binaries;
pub use self::control_plane::Options;
use self::control_plane::{ControlPlane, Network, Started};
use self::node::NodeTier;
use self::pki::Authority;
use self::process::{Daemon, ProcessId};
use self::progress::Progress;
pub use self::state::{ClusterName, Tier};
use self::state::{Metadata, Phase, StateDir};
pub use self::status::{DaemonStatus, Health, Status};
pub use self::temporary::TemporaryCluster;
pub use self::version::Kubernetes;

/// Starting takes seconds, stopping at most two minutes.
const LOCK_DEADLINE: Duration = Duration::from_mins(5);
/// What is not part of Kubernetes (webhook, controller) ends by itself within its own deadline, which is shorter.
const GRACE: Duration = Duration::from_secs(30);

/// A cluster that was ready once.
#[derive(Clone, Debug)]
pub struct Cluster {
    state: StateDir,
    metadata: Metadata,
}

impl Cluster {
    /// Starts a cluster and waits until it is ready; one that runs already is taken as it is.
    ///
    /// Where it fails, or the future is dropped, everything that was started is taken down again.
    pub async fn up(
        name: &ClusterName,
        tier: Tier,
        options: &Options,
        progress: &dyn Progress,
    ) -> Result<Self> {
        Self::start(name, tier, options, progress, None).await
    }

    async fn start(
        name: &ClusterName,
        tier: Tier,
        options: &Options,
        progress: &dyn Progress,
        owner: Option<ProcessId>,
    ) -> Result<Self> {
        if tier == Tier::Node {
            node::ensure_prerequisites(progress).await?;
        }
        let kubernetes = options.kubernetes.map_or_else(Kubernetes::chosen, Ok)?;
        let binaries = assets::ensure(tier, kubernetes, progress).await?;
        let api_server = kubernetes.api_server().chain(options.api_server.iter().cloned()).collect();
        let options = &Options { api_server, ..options.clone() };
        let state = StateDir::of(name)?;
        let _lock = state.lock(LOCK_DEADLINE).await?;
        if let Some(running) = Self::running(&state, tier, options)? {
            progress.note(&format!("cluster {name} runs already"));
            return Ok(running);
        }
        tear_down(&state).context("failed to remove what is left of an earlier start")?;

        let unfinished = Unfinished::begin(&state, progress)?;
        let mut metadata = Metadata {
            tier,
            version: kubernetes.version()?,
            phase: Phase::Starting,
            created: Timestamp::now(),
            kubectl: binaries.path("kubectl")?.to_owned(),
            server: None,
            owner,
        };
        state.save(&metadata)?;
        let started = Box::pin(start_tier(&state, tier, &binaries, options, progress)).await?;
        metadata.version = started.version;
        metadata.server = Some(started.server);
        metadata.phase = Phase::Running;
        state.save(&metadata)?;
        unfinished.keep();
        Ok(Self { state, metadata })
    }

    /// The cluster of this name if all its processes run.
    fn running(state: &StateDir, tier: Tier, options: &Options) -> Result<Option<Self>> {
        let Some(metadata) = state.load()? else { return Ok(None) };
        if Status::of(state)?.health != Health::Running {
            return Ok(None);
        }
        ensure!(
            metadata.tier == tier,
            "cluster {} runs with tier {}: take it down first, or use another name",
            state.name(),
            metadata.tier
        );
        if let Some(kubernetes) = options.kubernetes {
            ensure!(
                metadata.version == kubernetes.version()?,
                "cluster {} runs Kubernetes {}: take it down first, or use another name",
                state.name(),
                metadata.version
            );
        }
        Ok(Some(Self { state: state.clone(), metadata }))
    }

    /// The names of all clusters of this user, sorted, in whatever state they are.
    pub fn names() -> Result<Vec<ClusterName>> {
        Ok(StateDir::all()?.iter().map(|state| state.name().clone()).collect())
    }

    /// Finds a cluster that somebody else started.
    pub fn open(name: &ClusterName) -> Result<Self> {
        let state = StateDir::of(name)?;
        let metadata = state.load()?.filter(|metadata| metadata.phase == Phase::Running);
        let metadata = metadata.with_context(|| {
            format!("there is no cluster {name}: start it with `cargo xtask cluster up --name {name}`")
        })?;
        Ok(Self { state, metadata })
    }

    /// Stops a cluster and removes all that belongs to it, however much there is. False when there was nothing.
    pub async fn down(name: &ClusterName) -> Result<bool> {
        let name = name.clone();
        tokio::task::spawn_blocking(move || Self::down_blocking(&name)).await?
    }

    /// [`Cluster::down`] for callers that are not async, such as destructors.
    pub fn down_blocking(name: &ClusterName) -> Result<bool> {
        let state = StateDir::of(name)?;
        let _lock = state.lock_blocking(LOCK_DEADLINE)?;
        let existed = state.exists();
        tear_down(&state)?;
        Ok(existed)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ClusterName {
        self.state.name()
    }

    /// How much of Kubernetes it has.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.metadata.tier
    }

    /// The version of Kubernetes, such as `v1.37.2`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.metadata.version
    }

    /// The API server's URL for clients on this machine.
    #[must_use]
    pub fn server(&self) -> &str {
        self.metadata.server.as_deref().unwrap_or_default()
    }

    /// Host and port of that URL.
    #[must_use]
    pub fn server_address(&self) -> &str {
        self.server().trim_start_matches("https://")
    }

    /// Everything that belongs to the cluster is in here. What is added is removed with it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.state.path()
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig_path(&self) -> PathBuf {
        control_plane::admin_kubeconfig(self.state.path())
    }

    /// One JSON object per line and call, in the format of `audit.k8s.io/v1`, level Metadata.
    #[must_use]
    pub fn audit_log_path(&self) -> PathBuf {
        control_plane::audit_log(self.state.path())
    }

    /// The authority that signs for this cluster, for certificates and kubeconfigs of other users.
    pub fn authority(&self) -> Result<Authority> {
        Authority::open(self.state.path())
    }

    /// The administrator's configuration, to be changed before a client is made of it.
    pub async fn config(&self) -> Result<Config> {
        client_config(&self.kubeconfig_path()).await
    }

    /// A client with the administrator's rights.
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// kubectl of the cluster's own version, with the administrator's rights.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.metadata.kubectl);
        command.env("KUBECONFIG", self.kubeconfig_path());
        // What it learns of the API lies in the user's home directory otherwise, and outlives the cluster.
        command.env("KUBECACHEDIR", self.state.path().join("kubectl"));
        command
    }

    /// A process that belongs to the cluster and ends with it. Also one that is yet to be started.
    #[must_use]
    pub fn daemon(&self, name: &str) -> Daemon {
        Daemon::new(self.state.path(), name)
    }

    /// What can be seen of the cluster from outside.
    pub fn status(&self) -> Result<Status> {
        Status::of(&self.state)
    }

    /// Stops the API server alone and waits until it is gone.
    pub async fn stop_api_server(&self) -> Result<()> {
        let directory = self.state.path().to_owned();
        tokio::task::spawn_blocking(move || control_plane::stop_api_server(&directory)).await?
    }

    /// Starts the API server again, at the same address, and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        control_plane::start_api_server_again(self.state.path()).await
    }

    /// Both, one after the other.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server().await?;
        self.start_api_server().await
    }
}

async fn start_tier(
    state: &StateDir,
    tier: Tier,
    binaries: &Binaries,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Started> {
    let authority = &Authority::create(state.path())?;
    match tier {
        Tier::ControlPlane => {
            let (directory, network) = (state.path(), &Network::loopback());
            ControlPlane { directory, binaries, authority, network, options, progress }.start().await
        }
        Tier::Node => NodeTier { state, binaries, authority, options, progress }.start().await,
    }
}

/// A cluster that is not ready yet. Whatever keeps it from that, it is taken down.
struct Unfinished<'a> {
    state: Option<&'a StateDir>,
    progress: &'a dyn Progress,
}

impl<'a> Unfinished<'a> {
    fn begin(state: &'a StateDir, progress: &'a dyn Progress) -> Result<Self> {
        state.create()?;
        Ok(Self { state: Some(state), progress })
    }

    fn keep(mut self) {
        self.state = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let Some(state) = self.state else { return };
        if let Err(error) = tear_down(state) {
            self.progress.note(&format!("failed to take down cluster {}: {error:#}", state.name()));
        }
    }
}

/// Stops everything and removes the directory. Needs the lock and nothing else: what is broken can be taken down too.
fn tear_down(state: &StateDir) -> Result<()> {
    let metadata = state.load().unwrap_or_default();
    if metadata.as_ref().is_none_or(|metadata| metadata.tier == Tier::Node) {
        node::stop(state)?;
    }
    if let Some(metadata) = metadata {
        state.save(&Metadata { phase: Phase::Stopping, ..metadata })?;
    }
    for daemon in Daemon::all(state.path())? {
        if !control_plane::PARTS.contains(&daemon.name()) {
            daemon.stop(GRACE)?;
        }
    }
    control_plane::stop(state.path())?;
    state.remove()
}

async fn client_config(kubeconfig: &Path) -> Result<Config> {
    let failed = || format!("failed to read {}", kubeconfig.display());
    let parsed = Kubeconfig::read_from(kubeconfig).with_context(failed)?;
    Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.with_context(failed)
}
