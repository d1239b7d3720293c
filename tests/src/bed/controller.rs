//! The shipped controller as a process, serving one namespace.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::account::Account;
use super::audit::Call;
use super::builders::webservice;
use super::eventually::{DEADLINE, eventually, within};
use super::fleet::PATIENCE;
use super::http;
use super::metrics::Metrics;
use super::must::Must;
use super::namespace::TestNamespace;
use super::objects::version;
use super::process::{Process, address};
use crate::fault::FaultProxy;

/// Passes that it makes at a time by default.
pub const CONCURRENCY: usize = 10;
/// Objects that it asks for in one answer to a list.
pub const PAGE: usize = 500;

/// Begins the names of what [`Controller::settle`] creates.
pub(super) const FENCE: &str = "fence-";

/// A controller that is yet to be started.
#[must_use]
pub struct ControllerSetup<'n> {
    namespace: &'n TestNamespace,
    program: &'static str,
    kubeconfig: Option<PathBuf>,
    flags: Vec<String>,
}

impl<'n> ControllerSetup<'n> {
    pub(super) fn new(namespace: &'n TestNamespace) -> Self {
        Self { namespace, program: "webservice-controller", kubeconfig: None, flags: Vec::new() }
    }

    /// Adds flags.
    pub fn flags<const N: usize>(mut self, flags: [&str; N]) -> Self {
        self.flags.extend(flags.map(ToOwned::to_owned));
        self
    }

    /// Uses this kubeconfig instead of the one of the namespace's own account.
    pub fn kubeconfig(mut self, path: PathBuf) -> Self {
        self.kubeconfig = Some(path);
        self
    }

    /// Lets passes over WebServices panic whose name begins with `panics`.
    pub fn poisoned(self) -> Self {
        Self { program: "webservice-poisoned-controller", ..self }
    }

    /// Reaches the API server by way of `proxy`, with the namespace's own account.
    pub async fn through(self, proxy: &FaultProxy) -> Self {
        let proxied = self.namespace.account().await.at(self.namespace, &proxy.url());
        self.kubeconfig(proxied.kubeconfig)
    }

    /// Starts it and waits until it listens.
    pub async fn launch(self) -> Controller {
        let Self { namespace, program, kubeconfig, flags } = self;
        let kubeconfig = match kubeconfig {
            Some(path) => path,
            None => namespace.account().await.kubeconfig.clone(),
        };
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--namespaces={}", namespace.name()),
            "--probe-address=127.0.0.1:0".into(),
            "--metrics-address=127.0.0.1:0".into(),
            "--debug-address=127.0.0.1:0".into(),
            "--log-format=json".into(),
        ];
        let name = format!("controller-{}", namespace.next());
        let arguments = arguments.into_iter().chain(flags);
        let process = Process::start(&name, program, arguments, namespace.directory());
        let line = process.listening().await;
        let [probes, metrics, debug] = ["probes", "metrics", "debug"].map(|field| address(&line, field));
        Controller { process, probes, metrics, debug }
    }

    /// Lets it compete for the Lease of this namespace's controllers.
    pub fn electing(self) -> Self {
        let namespace = format!("--leader-election-namespace={}", self.namespace.name());
        self.flags(["--leader-elect", &namespace])
    }

    /// Starts it and waits until it is ready.
    pub async fn start(self) -> Controller {
        let controller = self.launch().await;
        controller.await_readyz().await;
        controller
    }
}

impl TestNamespace {
    /// Starts a controller with this account that competes for the lead, and waits until it is ready and follows the Lease.
    pub async fn start_candidate(&self, account: &Account) -> Controller {
        let mark = self.mark().await;
        let setup = self.controller().kubeconfig(account.kubeconfig.clone());
        let controller = setup.electing().start().await;
        let follows = |call: &Call| {
            (&*call.user, &*call.resource, &*call.verb, call.code) == (&*account.user, "leases", "watch", 200)
        };
        self.calls_from(&mark).await_calls(DEADLINE, "the candidate follows the Lease", 1, follows).await;
        controller
    }
}

/// A running controller.
pub struct Controller {
    process: Process,
    probes: SocketAddr,
    metrics: SocketAddr,
    debug: SocketAddr,
}

impl Controller {
    /// The process: to stop, kill or pause it, and for its log.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The status code and text of a probe such as `/readyz?verbose`.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        http::get(self.probes, path).await.must("probe the controller")
    }

    /// Waits until it says that it is ready.
    pub async fn await_readyz(&self) {
        self.await_readyz_within(DEADLINE).await;
    }

    /// The same for one that has much to read.
    pub async fn await_readyz_within(&self, deadline: Duration) {
        within(deadline, "the controller is ready", async || match self.probe("/readyz").await {
            (200, _) => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        })
        .await;
    }

    /// Waits until it leads, where it competes for that.
    pub async fn await_leading(&self) {
        self.process.await_line("leads", |line| line["message"] == "leading").await;
    }

    /// Its metrics now.
    pub async fn metrics(&self) -> Metrics {
        Metrics::parse(&self.exposition().await)
    }

    /// Its metrics now, as Prometheus reads them.
    pub async fn exposition(&self) -> String {
        let (code, text) = http::get(self.metrics, "/metrics").await.must("scrape the controller");
        assert_eq!(code, 200, "{text}");
        text
    }

    /// What somebody with this token gets who reads its metrics over TLS: the status code, and the text. The certificate is not
    /// looked at.
    pub async fn scrape(&self, token: Option<&str>) -> (u16, String) {
        let url = format!("https://{}", self.metrics).parse().must("write a URL");
        let mut config = kube::Config::new(url);
        config.accept_invalid_certs = true;
        config.read_timeout = Some(DEADLINE);
        // The refusal is of interest, not what comes after it.
        config.default_retry = false;
        config.auth_info.token = token.map(|token| token.to_owned().into());
        let client = kube::Client::try_from(config).must("make a client");
        let request = ::http::Request::get("/metrics").body(Vec::new()).must("write a request");
        match client.request_text(request).await {
            Ok(text) => (200, text),
            Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
            Err(error) => panic!("failed to scrape over TLS: {error:?}"),
        }
    }

    /// The filter of its log, after `filter` was asked for; or the refusal. With the status code.
    pub async fn set_log_filter(&self, filter: &str) -> (u16, String) {
        http::request(self.debug, "PUT", "/debug/log", filter).await.must("set the filter of the log")
    }

    /// Waits until it sees so many WebServices that are Ready.
    pub async fn await_objects_ready(&self, count: usize) {
        within(PATIENCE, "all are Ready", async || {
            match self.metrics().await.count("webservice_objects", &[("ready", "True")]) {
                ready if ready == count as u64 => Ok(()),
                ready => Err(format!("{ready} of {count} are")),
            }
        })
        .await;
    }

    /// Passes that failed because a busy API server did not answer in time. Each is made again.
    #[must_use]
    pub fn given_up(&self) -> usize {
        let is_one = |line: &&Value| {
            let message = line["message"].as_str().unwrap_or_default();
            message.starts_with("a pass failed: ") && message.contains("no answer within")
        };
        self.process().log().iter().filter(is_one).count()
    }

    /// Passes that failed otherwise than by being [given up](Self::given_up).
    pub async fn failed_passes(&self) -> u64 {
        let failed = self.metrics().await.count("controller_runtime_reconcile_errors_total", &[]);
        failed.saturating_sub(self.given_up() as u64)
    }

    /// Whether it could not send an event about the object of this name.
    fn has_failed_to_tell_of(&self, name: &str) -> bool {
        let is_it = |line: &Value| {
            line["about"] == name && line["message"].to_string().contains("failed to send an event")
        };
        self.process().log().iter().any(is_it)
    }

    /// What it tells of itself.
    pub async fn state(&self) -> Value {
        let (code, text) = http::get(self.debug, "/debug/state").await.must("ask for the state");
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).must("read the state")
    }

    /// Waits until it has done and told all that any event up to now has asked for.
    ///
    /// A fence is sent through it: a WebService that is made now, whose child is put back after a change, and of which an
    /// event tells. By then it has seen all that happened before, in the WebServices and in the ConfigMaps, and all earlier
    /// events are sent. Then its workers rest.
    pub async fn settle(&self, namespace: &TestNamespace) {
        let fence = format!("{FENCE}{}", namespace.next());
        let child = format!("{fence}-desired");
        namespace.webservices().create(webservice(&fence)).await;
        namespace.await_ready(&fence).await;
        let changed = namespace.config_maps().merge(&child, json!({"data": {"tier": "changed"}})).await;
        let is_put_back =
            |object: &Value| object["data"]["tier"] == "dev" && version(object) != version(&changed);
        namespace.config_maps().await_that(&child, "is put back", is_put_back).await;
        eventually("the controller has told of the fence", async || {
            let events = namespace.events().list().await;
            let is_told = events.iter().any(|event| event["regarding"]["name"] == *fence);
            // An event is sent once. One that a busy API server did not take came after all earlier ones, too.
            if is_told || self.has_failed_to_tell_of(&fence) {
                Ok(())
            } else {
                Err(format!("{} events of others", events.len()))
            }
        })
        .await;
        eventually("the controller rests", async || {
            let metrics = self.metrics().await;
            let waiting = metrics.count("workqueue_depth", &[]);
            let active = metrics.count("controller_runtime_active_workers", &[]);
            if waiting + active == 0 { Ok(()) } else { Err(format!("{waiting} waiting, {active} active")) }
        })
        .await;
    }
}
