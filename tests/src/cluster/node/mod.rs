//! The node tier: a control plane with one node that runs pods, in a machine inside the machine.
//!
//! Everything, the control plane too, runs in network and mount namespaces and in a control group of the cluster's own
//! (see `sandbox` and `cgroup`). So clusters of this tier live side by side without noticing each other, use the same
//! addresses, ports and paths, and leave nothing behind: ending the members of the control group ends the namespaces.

mod cgroup;
mod config;
mod images;
mod parts;
mod prerequisites;
mod sandbox;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

use self::cgroup::Cgroup;
use self::parts::Parts;
pub(super) use self::prerequisites::ensure as ensure_prerequisites;
use self::sandbox::Sandbox;
use super::assets::Binaries;
use super::control_plane::{self, ControlPlane, Network, Options, Started};
use super::pki::{Authority, Subject};
use super::progress::{Progress, step};
use super::state::StateDir;

const NODE_NAME: &str = "node";
/// The bridge's address, the first of [`POD_RANGE`].
const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// What the only node takes of [`CLUSTER_RANGE`].
const POD_RANGE: &str = "10.244.0.0/24";
const CLUSTER_RANGE: &str = "10.244.0.0/16";
const API_SERVER_PORT: u16 = 6443;
const PAUSE_IMAGE: &str = "localhost/pause:1";

/// Whom the API server is when it calls the kubelet.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

const READY_DEADLINE: Duration = Duration::from_mins(5);
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A cluster with a node that is being started.
pub(super) struct NodeTier<'a> {
    pub(super) state: &'a StateDir,
    pub(super) binaries: &'a Binaries,
    pub(super) authority: &'a Authority,
    pub(super) options: &'a Options,
    pub(super) progress: &'a dyn Progress,
}

impl NodeTier<'_> {
    /// Starts everything and waits until the node takes pods.
    pub(super) async fn start(&self) -> Result<Started> {
        let cgroup = Cgroup::of(self.state)?;
        cgroup.create()?;
        let sandbox = Sandbox::create(self.state, &cgroup, self.binaries);
        let (sandbox, network) = step(self.progress, "create the node's namespaces", sandbox).await?;

        let (state, binaries, authority) = (self.state, self.binaries, self.authority);
        let parts = Parts {
            state,
            binaries,
            authority,
            cgroup: &cgroup,
            sandbox: &sandbox,
            kubelet_sync: self.options.kubelet_sync,
        };
        let containerd = parts.start_containerd()?;
        let started = self.start_control_plane(&network).await?;
        let has_pause = containerd.ready(READY_DEADLINE, async || parts.load_pause_image().await);
        step(self.progress, "start containerd", has_pause).await?;
        let client = control_plane::client(&started.kubeconfig).await?;
        step(self.progress, "start the node", start_node(&parts, &client)).await?;
        Ok(started)
    }

    async fn start_control_plane(&self, network: &Network) -> Result<Started> {
        let plane = ControlPlane {
            directory: self.state.path(),
            binaries: self.binaries,
            authority: self.authority,
            network,
            options: &self.control_plane_options()?,
            progress: self.progress,
        };
        plane.start().await
    }

    /// What the control plane must know of nodes. The caller's options come last and win.
    fn control_plane_options(&self) -> Result<Options> {
        let client = self.authority.issue_files(KUBELET_CLIENT, &Subject::user(KUBELET_CLIENT), &[])?;
        let api_server = [
            format!("--kubelet-certificate-authority={}", self.authority.files().certificate.display()),
            format!("--kubelet-client-certificate={}", client.certificate.display()),
            format!("--kubelet-client-key={}", client.key.display()),
            "--kubelet-preferred-address-types=InternalIP".into(),
            // Webhooks are called at the addresses of their pods: kube-proxy may not know yet what the API server does.
            "--enable-aggregator-routing=true".into(),
        ];
        let controller_manager =
            ["--allocate-node-cidrs=true".to_owned(), format!("--cluster-cidr={CLUSTER_RANGE}")];
        Ok(Options {
            kubernetes: self.options.kubernetes,
            api_server: [&api_server[..], &self.options.api_server].concat(),
            controller_manager: [&controller_manager[..], &self.options.controller_manager].concat(),
            ..Options::default()
        })
    }
}

/// Starts what makes a control plane with containerd a cluster that runs pods.
async fn start_node(parts: &Parts<'_>, client: &Client) -> Result<()> {
    let scheduler = parts.start_scheduler()?;
    let kube_proxy = parts.start_kube_proxy()?;
    let kubelet = parts.start_kubelet()?;
    kubelet.ready(READY_DEADLINE, async || node_is_ready(client).await).await?;
    kube_proxy.ready(READY_DEADLINE, async || kube_proxy_is_ready(client).await).await?;
    ensure!(scheduler.process()?.is_some(), "{} ended\n{}", scheduler.name(), scheduler.log_tail());
    Ok(())
}

/// Ends everything that runs on the node and removes its control groups; the namespaces go by themselves. Needs no
/// more than the cluster's name, and nothing there is no error. Blocks.
///
/// Nobody is asked to end nicely. What a process would put in order lies in the namespaces or in the cluster's
/// directory, and both are about to go.
pub(super) fn stop(state: &StateDir) -> Result<()> {
    Cgroup::find(state)?.map_or(Ok(()), |cgroup| cgroup.destroy(STOP_DEADLINE))
}

/// Ready, and free of the taint that a node has until it is.
async fn node_is_ready(client: &Client) -> Result<()> {
    let node = Api::<Node>::all(client.clone()).get(NODE_NAME).await?;
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").context("the node is new")?;
    let message = ready.message.as_deref().unwrap_or("no reason given");
    ensure!(ready.status == "True", "the node is not ready: {message}");
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    ensure!(taints.is_empty(), "the node is still tainted: {}", taints[0].key);
    Ok(())
}

/// Services work. The API server asks kube-proxy for us: it is on the same network.
async fn kube_proxy_is_ready(client: &Client) -> Result<()> {
    let path = format!("/api/v1/nodes/http:{NODE_NAME}:10256/proxy/healthz");
    client.request_text(Request::get(path).body(Vec::new())?).await?;
    Ok(())
}

/// What the node keeps, in the cluster's directory.
fn directory(state: &StateDir) -> PathBuf {
    state.path().join("node")
}
