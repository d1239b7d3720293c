//! The shipped webhook as a process, registered for one namespace.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use webservice_api::constants::{FINALIZER, MUTATE_PATH, VALIDATE_PATH};
use webservice_api::registration;
use webservice_certs::{CERTIFICATE_FILE, Ca, KEY_FILE, Validity};

use super::builders::webservice;
use super::eventually::eventually;
use super::http;
use super::metrics::Metrics;
use super::must::Must;
use super::namespace::TestNamespace;
use super::process::{Process, address};

/// Longer than any test, shorter than anything that could do harm.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// What one call may take, in seconds: as much as the API allows, since a machine that also builds may be busy.
pub(super) const PATIENCE: i32 = 30;

/// A running webhook. Its registration goes with the namespace.
pub struct Webhook {
    process: Process,
    https: SocketAddr,
    probes: SocketAddr,
    metrics: SocketAddr,
    authority: Ca,
    namespace: String,
    client: Client,
}

/// How a webhook is to be started and registered.
#[must_use]
pub struct WebhookSetup<'n> {
    namespace: &'n TestNamespace,
    program: &'static str,
    flags: Vec<String>,
    timeout_seconds: i32,
}

impl<'n> WebhookSetup<'n> {
    pub(super) fn new(namespace: &'n TestNamespace) -> Self {
        Self { namespace, program: "webservice-webhook", flags: Vec::new(), timeout_seconds: PATIENCE }
    }

    /// Starts another build of it.
    pub fn program(mut self, name: &'static str) -> Self {
        self.program = name;
        self
    }

    /// Adds flags.
    pub fn flags<const N: usize>(mut self, flags: [String; N]) -> Self {
        self.flags.extend(flags);
        self
    }

    /// Lets the API server wait so long for an answer.
    pub fn timeout_seconds(mut self, seconds: i32) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    /// Starts it with a certificate, registers it, and waits until the API server calls it.
    pub async fn start(self) -> Webhook {
        let webhook = self.launch().await;
        webhook.register(self.namespace, self.timeout_seconds).await;
        webhook.await_called(self.namespace).await;
        webhook
    }

    async fn launch(&self) -> Webhook {
        let namespace = self.namespace;
        let directory = namespace.directory().join(format!("tls-{}", namespace.next()));
        let authority = write_certificate(&directory);
        let name = format!("webhook-{}", namespace.next());
        let arguments = Webhook::arguments(&directory).chain(self.flags.clone());
        let process = Process::start(&name, self.program, arguments, namespace.directory());
        let line = process.listening().await;
        let [https, probes, metrics] = ["https", "probes", "metrics"].map(|field| address(&line, field));
        let (client, namespace) = (namespace.client().clone(), namespace.name().to_owned());
        Webhook { process, https, probes, metrics, authority, namespace, client }
    }
}

impl Webhook {
    /// What it is started with, for a certificate in `directory`. It stops without a lame-duck time.
    pub(super) fn arguments(directory: &Path) -> impl Iterator<Item = String> {
        Self::on_loopback(directory).into_iter().chain(["--shutdown-lame-duck=0s".into()])
    }

    /// The same with all times as they are shipped.
    pub(crate) fn on_loopback(directory: &Path) -> [String; 5] {
        [
            format!("--cert-dir={}", directory.display()),
            "--https-address=127.0.0.1:0".into(),
            "--probe-address=127.0.0.1:0".into(),
            "--metrics-address=127.0.0.1:0".into(),
            "--log-format=json".into(),
        ]
    }

    /// The process: to stop, kill or pause it, and for its log.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The status code and text of a probe such as `/readyz?verbose`.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        http::get(self.probes, path).await.must("probe the webhook")
    }

    /// Its metrics now.
    pub async fn metrics(&self) -> Metrics {
        Metrics::parse(&self.exposition().await)
    }

    /// Its metrics now, as Prometheus reads them.
    pub async fn exposition(&self) -> String {
        let (code, text) = http::get(self.metrics, "/metrics").await.must("scrape the webhook");
        assert_eq!(code, 200, "{text}");
        text
    }

    async fn register(&self, namespace: &TestNamespace, timeout_seconds: i32) {
        let endpoint = |path: &str| WebhookClientConfig {
            url: Some(format!("https://{}{path}", self.https)),
            ca_bundle: Some(ByteString(self.authority.certificate_pem().into())),
            service: None,
        };
        let labels = [("kubernetes.io/metadata.name".to_owned(), self.namespace.clone())].into();
        let only_here = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
        let owner = OwnerReference {
            api_version: "v1".into(),
            kind: "Namespace".into(),
            name: self.namespace.clone(),
            uid: namespace.uid().into(),
            ..OwnerReference::default()
        };
        let mut mutating = registration::mutating(&self.namespace, &endpoint, Some(only_here.clone()));
        mutating.metadata.owner_references = Some(vec![owner.clone()]);
        mutating
            .webhooks
            .iter_mut()
            .flatten()
            .for_each(|webhook| webhook.timeout_seconds = Some(timeout_seconds));
        self.apply(&mutating).await;
        let validating = registration::validating(&self.namespace, &endpoint, Some(only_here));
        let mut validating = registration::checking_scale(validating);
        validating.metadata.owner_references = Some(vec![owner]);
        validating
            .webhooks
            .iter_mut()
            .flatten()
            .for_each(|webhook| webhook.timeout_seconds = Some(timeout_seconds));
        self.apply(&validating).await;
    }

    async fn apply<K>(&self, configuration: &K)
    where
        K: Resource<DynamicType = ()>
            + Clone
            + serde::Serialize
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let params = PatchParams::apply("webservice-tests").force();
        let api = Api::<K>::all(self.client.clone());
        api.patch(&self.namespace, &params, &Patch::Apply(configuration)).await.must("register the webhook");
    }

    /// How often the API server has called each of the two paths.
    async fn calls(&self) -> [u64; 2] {
        let metrics = self.metrics().await;
        [MUTATE_PATH, VALIDATE_PATH]
            .map(|path| metrics.count("controller_runtime_webhook_requests_total", &[("webhook", path)]))
    }

    async fn await_called(&self, namespace: &TestNamespace) {
        eventually("the API server calls the webhook", async || {
            let [mutations, validations] = self.calls().await;
            let stored = namespace.webservices().accepts(webservice("probe")).await;
            let is_mutated = stored["metadata"]["finalizers"] == serde_json::json!([FINALIZER]);
            match self.calls().await {
                [more, further] if more > mutations && further > validations && is_mutated => Ok(()),
                calls => Err(format!("{calls:?} calls, and a new object would be {stored}")),
            }
        })
        .await;
    }
}

/// Writes a certificate for 127.0.0.1 to `directory`, and gives the authority that signed it.
fn write_certificate(directory: &Path) -> Ca {
    let validity = Validity::lasting(LIFE, Timestamp::now());
    let authority = Ca::create(validity).must("make an authority");
    let leaf = authority.issue(&["127.0.0.1"], validity).must("issue a certificate");
    fs::create_dir_all(directory).must("make a directory for a certificate");
    fs::write(directory.join(CERTIFICATE_FILE), leaf.certificate_pem()).must("write a certificate");
    fs::write(directory.join(KEY_FILE), leaf.key_pem()).must("write a key");
    authority
}
