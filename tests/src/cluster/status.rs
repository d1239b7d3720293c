//! What can be seen of a cluster from outside, for `cargo xtask cluster status`.

use std::path::PathBuf;

use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use super::control_plane::admin_kubeconfig;
use super::process::{Daemon, ProcessId};
use super::state::{ClusterName, Metadata, Phase, StateDir, Tier};

/// A cluster in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It is being started, or that was cut short.
    Starting,
    /// All its processes run.
    Running,
    /// It was ready once, but some of its processes are gone.
    Broken,
    /// It is being taken down, or that was cut short.
    Stopping,
    /// It is temporary, and the process it was made for is gone.
    Abandoned,
}

/// One process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DaemonStatus {
    /// Such as `kube-apiserver`.
    pub name: String,
    /// None when it does not run.
    pub pid: Option<i32>,
    /// Where its output is.
    pub log: PathBuf,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Its name.
    pub name: ClusterName,
    /// In one word.
    pub health: Health,
    /// None when it was not even begun properly.
    pub tier: Option<Tier>,
    /// Of Kubernetes.
    pub version: Option<String>,
    /// When it was asked for.
    pub created: Option<Timestamp>,
    /// The API server's URL.
    pub server: Option<String>,
    /// The administrator's.
    pub kubeconfig: PathBuf,
    /// Sorted by name.
    pub daemons: Vec<DaemonStatus>,
}

impl Status {
    /// All clusters of this user, sorted by name.
    pub fn all() -> Result<Vec<Self>> {
        StateDir::all()?.iter().map(Self::of).collect()
    }

    pub(super) fn of(state: &StateDir) -> Result<Self> {
        let metadata = state.load()?;
        let daemons = Daemon::all(state.path())?.iter().map(daemon_status).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            name: state.name().clone(),
            health: health(metadata.as_ref(), &daemons),
            tier: metadata.as_ref().map(|metadata| metadata.tier),
            version: metadata.as_ref().map(|metadata| metadata.version.clone()),
            created: metadata.as_ref().map(|metadata| metadata.created),
            server: metadata.and_then(|metadata| metadata.server),
            kubeconfig: admin_kubeconfig(state.path()),
            daemons,
        })
    }
}

fn daemon_status(daemon: &Daemon) -> Result<DaemonStatus> {
    Ok(DaemonStatus {
        name: daemon.name().to_owned(),
        pid: daemon.process()?.map(ProcessId::pid),
        log: daemon.log_path().to_owned(),
    })
}

fn health(metadata: Option<&Metadata>, daemons: &[DaemonStatus]) -> Health {
    let Some(metadata) = metadata else { return Health::Starting };
    if metadata.owner.is_some_and(|owner| !owner.is_alive()) {
        return Health::Abandoned;
    }
    match metadata.phase {
        Phase::Starting => Health::Starting,
        Phase::Stopping => Health::Stopping,
        Phase::Running if daemons.iter().all(|daemon| daemon.pid.is_some()) => Health::Running,
        Phase::Running => Health::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(phase: Phase) -> Metadata {
        Metadata {
            tier: Tier::ControlPlane,
            version: "v1.37.2".into(),
            phase,
            created: Timestamp::UNIX_EPOCH,
            kubectl: PathBuf::new(),
            server: None,
            owner: None,
        }
    }

    fn daemon(pid: Option<i32>) -> DaemonStatus {
        DaemonStatus { name: "etcd".into(), pid, log: PathBuf::new() }
    }

    #[test]
    fn a_cluster_is_running_while_all_its_processes_are() {
        let running = metadata(Phase::Running);
        assert_eq!(health(Some(&running), &[daemon(Some(1)), daemon(Some(2))]), Health::Running);
        assert_eq!(health(Some(&running), &[daemon(Some(1)), daemon(None)]), Health::Broken);
    }

    #[test]
    fn a_directory_without_metadata_is_a_start_that_was_cut_short() {
        assert_eq!(health(None, &[]), Health::Starting);
    }

    #[test]
    fn a_temporary_cluster_is_abandoned_when_its_owner_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let owner = ProcessId::of(child.id());
        child.wait().unwrap();
        let orphan = Metadata { owner, ..metadata(Phase::Running) };
        let ours = Metadata { owner: Some(ProcessId::current().unwrap()), ..metadata(Phase::Running) };
        assert_eq!(health(Some(&orphan), &[]), Health::Abandoned);
        assert_eq!(health(Some(&ours), &[]), Health::Running);
    }
}
