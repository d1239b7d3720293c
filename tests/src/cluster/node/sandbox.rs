//! The machine inside the machine: network and mount namespaces with a bridge, and a way in.
//!
//! The namespaces have no names. They belong to a process, the gate, and vanish with the last process in them,
//! together with every interface, firewall rule and mount. The gate also holds a listening socket that was opened
//! outside, and forwards what arrives there to the API server inside.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::super::assets::Binaries;
use super::super::control_plane::{Network, SERVICE_RANGE};
use super::super::process::{CommandLine, Daemon};
use super::super::state::StateDir;
use super::cgroup::Cgroup;
use super::{API_SERVER_PORT, NODE_ADDRESS, directory};

const GATE: &str = "gate";
const NSENTER: &str = "nsenter";
const SETUP: &str = include_str!("setup.sh");
const READY_DEADLINE: Duration = Duration::from_mins(1);

/// Joins the cluster's control group on the way in. `nsenter --net` alone, not `ip netns exec`: that would hide
/// /sys/fs/cgroup.
const ENTER: &str = r#"export PATH="$PATH:/usr/sbin:/sbin"; echo 0 > "$0/cgroup.procs"; exec "$@""#;

/// Directories that are others inside.
const COVERED: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// Namespaces that exist.
pub(super) struct Sandbox {
    /// What `nsenter` is told.
    entry: Vec<String>,
}

impl Sandbox {
    /// Makes the namespaces. Returns how the API server is reached inside them, and from outside.
    pub(super) async fn create(
        state: &StateDir,
        cgroup: &Cgroup,
        binaries: &Binaries,
    ) -> Result<(Self, Network)> {
        ensure_visible(state.path())?;
        ensure_visible(binaries.path(GATE)?)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .context("failed to open a port for the API server")?;
        let outside = listener.local_addr()?;

        let setup = ["--net", "--mount", "sh", "-euc", SETUP, "setup"];
        let command = CommandLine::new("unshare")
            .args(setup)
            .arg(binaries.path(GATE)?.display().to_string())
            .arg(format!("{NODE_ADDRESS}:{API_SERVER_PORT}"))
            .env("CGROUP", cgroup.processes().display().to_string())
            .env("DIRECTORY", directory(state).display().to_string())
            .env("NODE_ADDRESS", NODE_ADDRESS.to_string())
            .env("SERVICE_RANGE", SERVICE_RANGE);
        let gate = Daemon::new(state.path(), GATE);
        gate.start_with_stdin(&command, OwnedFd::from(listener).into())?;
        gate.ready(READY_DEADLINE, async || is_set_up(&gate)).await?;

        let sandbox = Self::open(state, cgroup)?;
        let network = Network {
            wrapper: sandbox.wrapper(),
            bind: IpAddr::V4(NODE_ADDRESS),
            advertise: IpAddr::V4(NODE_ADDRESS),
            port: Some(API_SERVER_PORT),
            external_server: Some(format!("https://{outside}")),
        };
        Ok((sandbox, network))
    }

    /// The namespaces of a node that runs.
    pub(super) fn open(state: &StateDir, cgroup: &Cgroup) -> Result<Self> {
        let gate = Daemon::new(state.path(), GATE).process()?;
        let gate = gate.with_context(|| format!("cluster {} has no node that runs", state.name()))?;
        let pid = gate.pid().to_string();
        let processes = cgroup.processes().display().to_string();
        let entry = ["--target", &pid, "--net", "--mount", "sh", "-euc", ENTER, &processes];
        Ok(Self { entry: entry.map(str::to_owned).to_vec() })
    }

    /// What a command must be wrapped in to run inside. Its working directory is `/` then.
    pub(super) fn wrapper(&self) -> Vec<String> {
        [&[NSENTER.to_owned()], &self.entry[..]].concat()
    }

    /// A program that runs inside, and ends with the future that waits for it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(NSENTER);
        command.args(&self.entry).arg(program).kill_on_drop(true);
        command
    }
}

/// The set-up ends with the process becoming the gate.
fn is_set_up(gate: &Daemon) -> Result<()> {
    let process = gate.process()?.context("it ended")?;
    let name = fs::read_to_string(format!("/proc/{}/comm", process.pid()))?;
    ensure!(name.trim_end() == GATE, "the namespaces are still being set up");
    Ok(())
}

fn ensure_visible(path: &Path) -> Result<()> {
    let covered = COVERED.iter().find(|covered| path.starts_with(covered));
    ensure!(
        covered.is_none(),
        "{} cannot be seen from inside a node, which has another {}: set XDG_STATE_HOME and XDG_CACHE_HOME to other places",
        path.display(),
        covered.unwrap_or(&"")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_that_the_node_covers_is_refused_with_the_way_out() {
        let error = ensure_visible(Path::new("/var/lib/ci/.local/state/dev")).unwrap_err().to_string();
        assert!(error.contains("another /var/lib") && error.contains("XDG_STATE_HOME"), "{error}");
        ensure_visible(Path::new("/root/.local/state/dev")).unwrap();
        ensure_visible(Path::new("/var/library")).unwrap();
    }
}
