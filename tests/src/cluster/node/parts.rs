//! The node's own processes: containerd, the kubelet, kube-proxy, and the scheduler that gives it pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::assets::Binaries;
use super::super::files::write;
use super::super::pki::{Authority, Subject};
use super::super::process::{CommandLine, Daemon};
use super::super::state::StateDir;
use super::cgroup::Cgroup;
use super::config::{self, Kubelet};
use super::sandbox::Sandbox;
use super::{API_SERVER_PORT, CLUSTER_RANGE, NODE_ADDRESS, NODE_NAME, PAUSE_IMAGE, directory, images};
use crate::image::{Image, Packing};

const CONTAINERD: &str = "containerd";
const KUBELET: &str = "kubelet";
const KUBE_PROXY: &str = "kube-proxy";
const SCHEDULER: &str = "kube-scheduler";

/// What the processes are made of, and where they run.
pub(super) struct Parts<'a> {
    pub(super) state: &'a StateDir,
    pub(super) binaries: &'a Binaries,
    pub(super) authority: &'a Authority,
    pub(super) cgroup: &'a Cgroup,
    pub(super) sandbox: &'a Sandbox,
    pub(super) kubelet_sync: Option<Duration>,
}

impl Parts<'_> {
    pub(super) fn start_containerd(&self) -> Result<Daemon> {
        let networks = self.write("cni/10-pods.conflist", &config::network().to_string())?;
        let shim = self.binaries.path("containerd-shim-runc-v2")?;
        let plugins = self.binaries.path("bridge")?;
        let text = config::containerd(shim, parent(plugins)?, parent(&networks)?);
        let configuration = self.write("containerd.toml", &text)?;
        images::install(self.state, self.binaries)?;
        self.run(CONTAINERD, [format!("--config={}", configuration.display())])
    }

    /// Gives containerd the image that every pod needs.
    pub(super) async fn load_pause_image(&self) -> Result<()> {
        let image = Image::of_programs(PAUSE_IMAGE, &[self.binaries.path("pause")?])?;
        images::import(self.state, self.sandbox, &image.to_archive(Packing::Fast)?.bytes).await
    }

    pub(super) fn start_scheduler(&self) -> Result<Daemon> {
        let kubeconfig = self.kubeconfig(SCHEDULER, &Subject::user("system:kube-scheduler"))?;
        self.run(SCHEDULER, [kubeconfig, "--leader-elect=false".into()])
    }

    pub(super) fn start_kube_proxy(&self) -> Result<Daemon> {
        let flags = [
            self.kubeconfig(KUBE_PROXY, &Subject::user("system:kube-proxy"))?,
            format!("--hostname-override={NODE_NAME}"),
            format!("--cluster-cidr={CLUSTER_RANGE}"),
            "--proxy-mode=iptables".into(),
            // An answer between two pods crosses their bridge, where only a kernel with br_netfilter would translate it
            // back. So it is sent by way of the node.
            "--masquerade-all=true".into(),
            // The size of the connection table is the machine's.
            "--conntrack-max-per-core=0".into(),
            "--oom-score-adj=0".into(),
        ];
        self.run(KUBE_PROXY, flags)
    }

    pub(super) fn start_kubelet(&self) -> Result<Daemon> {
        let subject = Subject::node(NODE_NAME);
        let configuration = Kubelet {
            cgroup: &self.cgroup.root(),
            cgroup_v1: self.cgroup.is_v1(),
            authority: &self.authority.files().certificate,
            certificate: &self.authority.issue_files(
                KUBELET,
                &subject,
                &[NODE_NAME, &NODE_ADDRESS.to_string()],
            )?,
            sync: self.kubelet_sync,
        };
        let configuration = self.write("kubelet.json", &configuration.configuration().to_string())?;
        let flags = [
            format!("--config={}", configuration.display()),
            self.kubeconfig(KUBELET, &subject)?,
            format!("--hostname-override={NODE_NAME}"),
            format!("--node-ip={NODE_ADDRESS}"),
        ];
        self.run(KUBELET, flags)
    }

    /// The flag that tells a part who it is and where the API server is, seen from inside.
    fn kubeconfig(&self, name: &str, subject: &Subject) -> Result<String> {
        let server = format!("https://{NODE_ADDRESS}:{API_SERVER_PORT}");
        let path = self.authority.issue_kubeconfig(name, subject, &server)?;
        Ok(format!("--kubeconfig={}", path.display()))
    }

    fn run(&self, name: &str, flags: impl IntoIterator<Item = String>) -> Result<Daemon> {
        let command = CommandLine::new(self.binaries.path(name)?).args(flags);
        let daemon = Daemon::new(self.state.path(), name);
        daemon.start(&command.wrapped_in(&self.sandbox.wrapper()))?;
        Ok(daemon)
    }

    /// Writes a file for the node, and says where it is.
    fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = directory(self.state).join(name);
        let parent = parent(&path)?;
        fs::create_dir_all(parent).with_context(|| format!("failed to create {}", parent.display()))?;
        write(&path, content.as_bytes())?;
        Ok(path)
    }
}

fn parent(path: &Path) -> Result<&Path> {
    path.parent().with_context(|| format!("{} is in no directory", path.display()))
}
