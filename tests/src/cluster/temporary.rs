//! Clusters for tests that need an API server of their own.

use std::ops::Deref;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;

use super::process::ProcessId;
use super::progress::Progress;
use super::state::StateDir;
use super::status::{Health, Status};
use super::{Cluster, ClusterName, Options, Tier};

/// A cluster that goes when the value goes.
#[derive(Debug)]
pub struct TemporaryCluster(Cluster);

impl TemporaryCluster {
    /// Starts a cluster under a name that nobody else has. Those that a killed test left behind are removed first.
    pub async fn up(tier: Tier, options: &Options, progress: &dyn Progress) -> Result<Self> {
        tokio::task::spawn_blocking(remove_abandoned).await??;
        let owner = ProcessId::current()?;
        Cluster::start(&unique_name()?, tier, options, progress, Some(owner)).await.map(Self)
    }
}

impl Deref for TemporaryCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

impl Drop for TemporaryCluster {
    fn drop(&mut self) {
        if let Err(error) = Cluster::down_blocking(self.0.name()) {
            eprintln!("failed to take down cluster {}: {error:#}", self.0.name());
        }
    }
}

fn unique_name() -> Result<ClusterName> {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    format!("tmp-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)).parse()
}

fn remove_abandoned() -> Result<()> {
    for state in StateDir::all()? {
        // A cluster that cannot be understood is not ours to judge.
        if Status::of(&state).is_ok_and(|status| status.health == Health::Abandoned) {
            Cluster::down_blocking(state.name())?;
        }
    }
    Ok(())
}
