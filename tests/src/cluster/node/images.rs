//! Images on the node: there is no registry, so they are put there.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::super::assets::Binaries;
use super::super::state::StateDir;
use super::super::{Cluster, Tier};
use super::cgroup::Cgroup;
use super::directory;
use super::sandbox::Sandbox;
use crate::image::{Image, Packing};

const IMPORT_DEADLINE: Duration = Duration::from_mins(5);

impl Cluster {
    /// Gives the node an image, so that pods can be made from it as long as they do not insist on pulling it.
    pub async fn load_image(&self, image: &Image) -> Result<()> {
        ensure!(
            self.tier() == Tier::Node,
            "cluster {} has no node to run {}: start one with `--tier node`",
            self.name(),
            image.name
        );
        let to_pack = image.clone();
        let archive = spawn_blocking(move || to_pack.to_archive(Packing::Fast)).await??;
        let sandbox = Sandbox::open(&self.state, &Cgroup::of(&self.state)?)?;
        let imported = import(&self.state, &sandbox, &archive.bytes).await;
        imported.with_context(|| format!("failed to load the image {}", image.name))
    }
}

/// Puts the import tool where any later command finds the version that fits.
pub(super) fn install(state: &StateDir, binaries: &Binaries) -> Result<()> {
    let link = ctr(state);
    symlink(binaries.path("ctr")?, &link).with_context(|| format!("failed to create {}", link.display()))
}

/// Imports an OCI archive into the namespace of containerd that Kubernetes uses.
pub(super) async fn import(state: &StateDir, sandbox: &Sandbox, archive: &[u8]) -> Result<()> {
    let mut command = sandbox.command(&ctr(state));
    command.args(["--namespace=k8s.io", "images", "import", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut ctr = command.spawn().context("failed to run ctr")?;
    let stdin = ctr.stdin.take();
    let work = async {
        if let Some(mut stdin) = stdin {
            // Why it does not want more, ctr says itself.
            _ = stdin.write_all(archive).await;
        }
        ctr.wait_with_output().await
    };
    let output = timeout(IMPORT_DEADLINE, work).await.context("ctr did not end in time")??;
    ensure!(output.status.success(), "ctr: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    Ok(())
}

fn ctr(state: &StateDir) -> PathBuf {
    directory(state).join("ctr")
}
