//! etcd, kube-apiserver and kube-controller-manager: how they are started, found to be ready, and stopped.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client};
use tokio::sync::Semaphore;

use super::assets::Binaries;
use super::files::write;
use super::pki::{Authority, Subject};
use super::process::{CommandLine, Daemon};
use super::progress::{Progress, step};
use super::version::Kubernetes;

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// In the order in which they start. They stop in reverse: an API server that loses its etcd hangs.
pub(super) const PARTS: [&str; 3] = [ETCD, API_SERVER, CONTROLLER_MANAGER];

const READY_DEADLINE: Duration = Duration::from_mins(5);
/// One API server starts at a time: each has both cores of a small machine busy for some seconds, and several at once leave
/// nothing to those that serve.
static STARTS: Semaphore = Semaphore::const_new(1);
/// The API server waits for requests that are still open, at most for a minute.
const API_SERVER_GRACE: Duration = Duration::from_secs(70);
const GRACE: Duration = Duration::from_secs(10);
/// How often another port is tried when somebody takes the chosen one first.
const PORT_ATTEMPTS: usize = 3;
/// `sun_path` of unix(7), less its final zero.
const MAX_SOCKET_PATH: usize = 107;

/// The first address of [`SERVICE_RANGE`]: the `kubernetes` Service.
const SERVICE_ADDRESS: &str = "10.96.0.1";
pub(super) const SERVICE_RANGE: &str = "10.96.0.0/16";
const SERVICE_NAMES: [&str; 4] =
    ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Every call is counted once, when it is answered (a watch also when it begins).
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// Where the API server is reached.
#[derive(Clone, Debug)]
pub struct Network {
    /// Runs the processes somewhere else, such as `nsenter --net=/run/netns/dev`. Empty: here.
    pub wrapper: Vec<String>,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The address under which nodes and pods reach it. A loopback address is not published in the cluster.
    pub advertise: IpAddr,
    /// The port; none: any free one on this machine.
    pub port: Option<u16>,
    /// The URL for clients on this machine, where it differs from `https://ADVERTISE:PORT`.
    pub external_server: Option<String>,
}

impl Network {
    /// This machine's loopback interface and any free port.
    #[must_use]
    pub fn loopback() -> Self {
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self { wrapper: Vec::new(), bind: localhost, advertise: localhost, port: None, external_server: None }
    }
}

/// What a cluster has beyond the usual.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The version of Kubernetes; none: [`Kubernetes::chosen`].
    pub kubernetes: Option<Kubernetes>,
    /// More flags for kube-apiserver; they come last and win.
    pub api_server: Vec<String>,
    /// More flags for kube-controller-manager.
    pub controller_manager: Vec<String>,
    /// How often the kubelet looks after a pod's mounts. Its default is a minute.
    pub kubelet_sync: Option<Duration>,
}

/// A control plane that is being started in a cluster's directory.
pub(super) struct ControlPlane<'a> {
    pub(super) directory: &'a Path,
    pub(super) binaries: &'a Binaries,
    pub(super) authority: &'a Authority,
    pub(super) network: &'a Network,
    pub(super) options: &'a Options,
    pub(super) progress: &'a dyn Progress,
}

/// A control plane that is ready.
pub(super) struct Started {
    /// For clients on this machine.
    pub(super) server: String,
    /// The administrator's.
    pub(super) kubeconfig: PathBuf,
    /// Of Kubernetes, as the API server tells it.
    pub(super) version: String,
}

impl ControlPlane<'_> {
    /// Starts the three parts, each when the one before it is ready.
    pub(super) async fn start(&self) -> Result<Started> {
        self.prepare()?;
        step(self.progress, "start etcd", self.start_etcd()).await?;
        let started = step(self.progress, "start kube-apiserver", self.start_api_server()).await?;
        step(self.progress, "start kube-controller-manager", self.start_controller_manager(&started)).await?;
        Ok(started)
    }

    fn prepare(&self) -> Result<()> {
        self.authority.service_account_key()?;
        fs::create_dir_all(self.directory.join("logs"))?;
        write(&self.directory.join("audit-policy.yaml"), AUDIT_POLICY.as_bytes())
    }

    /// Starts a part inside the cluster's network.
    fn run(&self, name: &str, flags: impl IntoIterator<Item = String>) -> Result<Daemon> {
        let daemon = Daemon::new(self.directory, name);
        // Four times less garbage collection, which is a quarter of the API server's work, for memory that lives minutes.
        let command = CommandLine::new(self.binaries.path(name)?).args(flags).env("GOGC", "400");
        daemon.start(&command.wrapped_in(&self.network.wrapper))?;
        Ok(daemon)
    }

    async fn start_etcd(&self) -> Result<()> {
        let socket = etcd_socket(self.directory)?;
        let daemon = self.run(ETCD, etcd_flags(self.directory, &socket))?;
        let listening = async || {
            tokio::net::UnixStream::connect(&socket).await.context("its socket does not answer")?;
            Ok(())
        };
        daemon.ready(READY_DEADLINE, listening).await
    }

    /// A free port may be lost to somebody else before the API server has it.
    async fn start_api_server(&self) -> Result<Started> {
        let mut attempt = 1;
        loop {
            let port = self.network.port.map_or_else(free_port, Ok)?;
            match self.start_api_server_at(port).await {
                Err(error) if attempt < PORT_ATTEMPTS && port_was_lost(&error) => attempt += 1,
                result => return result,
            }
        }
    }

    async fn start_api_server_at(&self, port: u16) -> Result<Started> {
        let _turn = STARTS.acquire().await?;
        let inside = format!("https://{}:{port}", self.network.advertise);
        let server = self.network.external_server.clone().unwrap_or_else(|| inside.clone());
        self.issue_certificates(&inside)?;
        let kubeconfig = self.authority.issue_kubeconfig("admin", &Subject::admin(), &server)?;
        let daemon = self.run(API_SERVER, self.api_server_flags(port)?)?;
        let client = client(&kubeconfig).await?;
        daemon.ready(READY_DEADLINE, async || api_server_is_ready(&client).await).await?;
        let version = client.apiserver_version().await?.git_version;
        Ok(Started { server, kubeconfig, version })
    }

    fn issue_certificates(&self, inside: &str) -> Result<()> {
        let (advertise, bind) = (self.network.advertise.to_string(), self.network.bind.to_string());
        let addresses = ["localhost", "127.0.0.1", SERVICE_ADDRESS, &advertise, &bind];
        let names = [addresses.as_slice(), &SERVICE_NAMES].concat();
        self.authority.issue_files(API_SERVER, &Subject::user(API_SERVER), &names)?;
        let controller_manager = Subject::user("system:kube-controller-manager");
        self.authority.issue_kubeconfig(CONTROLLER_MANAGER, &controller_manager, inside)?;
        Ok(())
    }

    async fn start_controller_manager(&self, started: &Started) -> Result<()> {
        let daemon = self.run(CONTROLLER_MANAGER, self.controller_manager_flags())?;
        let client = client(&started.kubeconfig).await?;
        daemon.ready(READY_DEADLINE, async || default_service_account_exists(&client).await).await
    }

    fn api_server_flags(&self, port: u16) -> Result<Vec<String>> {
        let pki = Pki(self.directory);
        let directory = self.directory.display();
        let flags = [
            format!("--etcd-servers=unix://{}", etcd_socket(self.directory)?.display()),
            format!("--bind-address={}", self.network.bind),
            format!("--advertise-address={}", self.network.advertise),
            format!("--secure-port={port}"),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            format!("--client-ca-file={}", pki.file("ca.crt")),
            format!("--tls-cert-file={}", pki.file("kube-apiserver.crt")),
            format!("--tls-private-key-file={}", pki.file("kube-apiserver.key")),
            format!("--service-account-issuer={ISSUER}"),
            format!("--service-account-key-file={}", pki.file("service-account.pub")),
            format!("--service-account-signing-key-file={}", pki.file("service-account.key")),
            format!("--audit-policy-file={directory}/audit-policy.yaml"),
            format!("--audit-log-path={}", audit_log(self.directory).display()),
            // Calls are counted in this file, so it is never rotated away.
            "--audit-log-maxsize=0".into(),
            "--authorization-mode=Node,RBAC".into(),
            "--allow-privileged=true".into(),
            "--profiling=false".into(),
            // Watches are told to end. Without a grace period they are not, and each holds the server up for a minute.
            "--shutdown-watch-termination-grace-period=1s".into(),
        ];
        let reconciler =
            self.network.advertise.is_loopback().then(|| "--endpoint-reconciler-type=none".into());
        Ok(flags.into_iter().chain(reconciler).chain(self.options.api_server.clone()).collect())
    }

    fn controller_manager_flags(&self) -> Vec<String> {
        let pki = Pki(self.directory);
        let flags = [
            format!("--kubeconfig={}", pki.file("kube-controller-manager.kubeconfig")),
            format!("--root-ca-file={}", pki.file("ca.crt")),
            format!("--service-account-private-key-file={}", pki.file("service-account.key")),
            format!("--cluster-signing-cert-file={}", pki.file("ca.crt")),
            format!("--cluster-signing-key-file={}", pki.file("ca.key")),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            "--use-service-account-credentials=true".into(),
            "--leader-elect=false".into(),
            // It needs no port of its own: nobody scrapes it.
            "--secure-port=0".into(),
            "--profiling=false".into(),
            // The default of 20 makes garbage collection the slowest part of a load test.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ];
        flags.into_iter().chain(self.options.controller_manager.clone()).collect()
    }
}

/// Stops what [`ControlPlane::start`] started, also where that did not get far. Blocks.
pub(super) fn stop(directory: &Path) -> Result<()> {
    Daemon::new(directory, CONTROLLER_MANAGER).stop(GRACE)?;
    stop_api_server(directory)?;
    Daemon::new(directory, ETCD).stop(GRACE)
}

/// Stops the API server alone and waits until it is gone. Blocks.
pub(super) fn stop_api_server(directory: &Path) -> Result<()> {
    Daemon::new(directory, API_SERVER).stop(API_SERVER_GRACE)
}

/// Starts the API server again, at the same place with the same flags.
pub(super) async fn start_api_server_again(directory: &Path) -> Result<()> {
    let _turn = STARTS.acquire().await?;
    let daemon = Daemon::new(directory, API_SERVER);
    daemon.start_again()?;
    let client = client(&admin_kubeconfig(directory)).await?;
    daemon.ready(READY_DEADLINE, async || api_server_is_ready(&client).await).await
}

/// Where the administrator's kubeconfig is.
pub(super) fn admin_kubeconfig(directory: &Path) -> PathBuf {
    directory.join("pki").join("admin.kubeconfig")
}

/// Where the API server writes a line of JSON for every call.
pub(super) fn audit_log(directory: &Path) -> PathBuf {
    directory.join("logs").join("audit.log")
}

/// A client that does not hide a bad answer behind retries of its own.
pub(super) async fn client(kubeconfig: &Path) -> Result<Client> {
    let mut config = super::client_config(kubeconfig).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn api_server_is_ready(client: &Client) -> Result<()> {
    client.request_text(Request::get("/readyz").body(Vec::new())?).await?;
    Api::<Namespace>::all(client.clone()).get("default").await?;
    Ok(())
}

/// Without it no pod, and no test that asks for a token, works in the namespace `default`.
async fn default_service_account_exists(client: &Client) -> Result<()> {
    Api::<ServiceAccount>::namespaced(client.clone(), "default").get("default").await?;
    Ok(())
}

struct Pki<'a>(&'a Path);

impl Pki<'_> {
    fn file(&self, name: &str) -> String {
        self.0.join("pki").join(name).display().to_string()
    }
}

/// Nothing here outlives the machine, so nothing is worth an fsync.
fn etcd_flags(directory: &Path, socket: &Path) -> Vec<String> {
    let client = format!("unix://{}", socket.display());
    // A member without peers still insists on an address for them: the kernel picks a free one.
    let peer = "http://127.0.0.1:0";
    vec![
        "--name=etcd".into(),
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=etcd={peer}"),
        "--unsafe-no-fsync=true".into(),
        "--log-level=warn".into(),
    ]
}

/// A socket in a directory that only its owner may enter: etcd serves whoever reaches it, and a port would be open to
/// every user of this machine. It is also the same from inside and outside of a network namespace.
fn etcd_socket(directory: &Path) -> Result<PathBuf> {
    let path = directory.join("etcd.sock");
    let length = path.as_os_str().len();
    ensure!(
        length <= MAX_SOCKET_PATH,
        "failed to place a socket at {}: a path of {length} bytes is too long, set XDG_STATE_HOME to one shorter by {}",
        path.display(),
        length - MAX_SOCKET_PATH
    );
    Ok(path)
}

/// A port below those that the kernel gives to outgoing connections, which could take it while the API server is
/// restarted.
fn free_port() -> Result<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = first_ephemeral_port(&range);
    let start = end / 2;
    let random = RandomState::new();
    (0..100)
        .map(|attempt: u32| {
            start + u16::try_from(random.hash_one(attempt) % u64::from(end - start)).unwrap_or(0)
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .with_context(|| format!("failed to find a free port between {start} and {end}"))
}

/// Reads ip(7)'s `ip_local_port_range`. Some machines give almost all ports away; then nothing can be avoided.
fn first_ephemeral_port(range: &str) -> u16 {
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.filter(|first| *first >= 10_000).unwrap_or(32_768)
}

fn port_was_lost(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_not_one_for_outgoing_connections() {
        let port = free_port().unwrap();
        assert!((5_000..32_768).contains(&port), "{port}");
    }

    #[test]
    fn ephemeral_ports_begin_where_the_kernel_says_unless_it_leaves_no_room() {
        assert_eq!(first_ephemeral_port("32768\t60999\n"), 32_768);
        assert_eq!(first_ephemeral_port("20000\t60999\n"), 20_000);
        assert_eq!(first_ephemeral_port("1024\t65535\n"), 32_768);
        assert_eq!(first_ephemeral_port(""), 32_768);
    }

    #[test]
    fn a_directory_too_deep_for_a_socket_is_refused_with_a_remedy() {
        let deep = PathBuf::from(format!("/{}", "d".repeat(120)));
        let error = etcd_socket(&deep).unwrap_err().to_string();
        assert!(error.contains("set XDG_STATE_HOME to one shorter by 24"), "{error}");
    }

    #[test]
    fn a_lost_port_is_told_from_other_failures() {
        let lost = anyhow::anyhow!("failed to listen on 127.0.0.1:6443: bind: address already in use");
        assert!(port_was_lost(&lost.context("failed to start")));
        assert!(!port_was_lost(&anyhow::anyhow!("unknown flag")));
    }
}
