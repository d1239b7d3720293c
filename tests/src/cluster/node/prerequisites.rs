//! What a node needs of the machine: root, and the programs that containerd, the kubelet and kube-proxy call.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use super::super::progress::{Progress, step};

/// Programs and the Debian packages they come in.
const PROGRAMS: [(&str, &str); 7] = [
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("ip", "iproute2"),
    ("mount", "mount"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
];
/// Where Debian keeps them, also when root's own PATH has not been set up.
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
const APT: &str = "apt-get";
const INSTALL_DEADLINE: Duration = Duration::from_mins(5);

/// Checks the machine. On Debian and its kin missing packages are installed.
pub(in super::super) async fn ensure(progress: &dyn Progress) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "a cluster with a node needs root, for namespaces, mounts and containers: run it as root, or use `--tier control-plane`"
    );
    let directories = directories();
    let exists = |program: &str| directories.iter().any(|directory| directory.join(program).is_file());
    let packages = missing(exists);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    ensure!(exists(APT), "a cluster with a node needs programs that are missing: install {list}");
    step(progress, &format!("install the packages {list}"), install(&packages)).await
}

fn missing(exists: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let absent = PROGRAMS.iter().filter(|(program, _)| !exists(program));
    let mut packages: Vec<_> = absent.map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

fn directories() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(DIRECTORIES.map(PathBuf::from)).collect()
}

/// A machine that was just made has no package lists yet, so a first failure is answered by fetching them.
async fn install(packages: &[&str]) -> Result<()> {
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    if apt_get(&install).await.is_err() {
        apt_get(&["update"]).await?;
        apt_get(&install).await?;
    }
    Ok(())
}

async fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(APT);
    command.args(["-o", "DPkg::Lock::Timeout=60"]).args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive").kill_on_drop(true);
    let what = format!("{APT} {}", arguments.join(" "));
    let output = timeout(INSTALL_DEADLINE, command.output()).await;
    let output = output.with_context(|| format!("{what} did not end in time"))?;
    let output = output.with_context(|| format!("failed to run {what}"))?;
    if !output.status.success() {
        bail!("failed to {what}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_missing_where_every_program_exists() {
        assert!(missing(|_| true).is_empty());
    }

    #[test]
    fn a_missing_program_is_named_by_its_package() {
        assert_eq!(missing(|program| program != "ip"), ["iproute2"]);
    }

    #[test]
    fn a_package_with_two_missing_programs_is_named_once() {
        assert_eq!(missing(|program| !["nsenter", "unshare"].contains(&program)), ["util-linux"]);
    }
}
