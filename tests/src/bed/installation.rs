//! The operator as the chart installs it, with certificates of its own making.
//!
//! The API server reaches the webhook by its Service, under the Service's name. Where there are no pods, the Service leads to the process
//! by an external name, and a task of the bed does what the kubelet would: it shows the Secret to the webhook.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, PostParams};
use serde_json::{Value, from_value, json, to_value};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use webservice_api::rbac::Names;
use webservice_api::registration;
use webservice_certs::{CERTIFICATE_FILE, KEY_FILE};

use super::controller::ControllerSetup;
use super::must::Must;
use super::namespace::TestNamespace;
use super::objects::{Objects, version};
use super::process::{Process, address};
use super::right_holder::{Rights, kubeconfig_with, owner};
use super::webhook::{PATIENCE, Webhook};
use crate::prove::Mount;

/// How often the stand-in for the kubelet looks.
const SYNC: Duration = Duration::from_millis(50);
/// Name of the Service, and the first part of the Secrets' names.
const NAME: &str = "webhook";

/// What a release consists of but for the controller. It goes with the namespace.
pub struct Installation<'n> {
    namespace: &'n TestNamespace,
    webhook: Process,
    kubeconfig: PathBuf,
    _kubelet: JoinSet<()>,
}

impl<'n> Installation<'n> {
    /// Registers a webhook that waits for its certificate, and makes the controller's account.
    pub async fn create(namespace: &'n TestNamespace) -> Self {
        let mount = Mount::empty().must("make a mount");
        let webhook = Process::start(
            "webhook",
            "webservice-webhook",
            Webhook::arguments(mount.path()),
            namespace.directory(),
        );
        let port = address(&webhook.listening().await, "https").port();
        create_service(namespace, port).await;
        register(namespace, port).await;
        let rights = Rights {
            here: &["controller", "leader-election", "certificates", "test"],
            in_cluster: &["registration", "trust"],
            names: Self::names(namespace),
        };
        let kubeconfig = kubeconfig_with(namespace, "operator", &rights).await;
        let mut kubelet = JoinSet::new();
        let secrets = Api::namespaced(namespace.client().clone(), namespace.name());
        kubelet.spawn(show(secrets, mount));
        Self { namespace, webhook, kubeconfig, _kubelet: kubelet }
    }

    /// The names of what it consists of.
    #[must_use]
    pub fn names(namespace: &TestNamespace) -> Names {
        Names {
            webhook_configuration: namespace.name().to_owned(),
            deployment: "controller".to_owned(),
            ca_secret: format!("{NAME}-ca"),
            tls_secret: format!("{NAME}-tls"),
        }
    }

    /// A controller that keeps the certificates; yet to be started.
    pub fn controller(&self) -> ControllerSetup<'n> {
        let names = Self::names(self.namespace);
        let flags = [
            format!("--webhook-configuration={}", names.webhook_configuration),
            format!("--webhook-service={NAME}"),
            format!("--ca-secret={}", names.ca_secret),
            format!("--tls-secret={}", names.tls_secret),
        ];
        self.electing_controller().flags(flags.each_ref().map(String::as_str))
    }

    /// A controller that has nothing to do with certificates; yet to be started.
    pub fn electing_controller(&self) -> ControllerSetup<'n> {
        let own = format!("--leader-election-namespace={}", self.namespace.name());
        self.namespace.controller().kubeconfig(self.kubeconfig.clone()).flags(["--leader-elect", &own])
    }

    /// The webhook's process.
    #[must_use]
    pub fn webhook(&self) -> &Process {
        &self.webhook
    }

    /// The Secrets of the namespace.
    #[must_use]
    pub fn secrets(&self) -> Objects {
        self.namespace.objects::<Secret>()
    }

    /// The mutating and the validating configuration.
    pub async fn registrations(&self) -> [Value; 2] {
        let (client, name) = (self.namespace.client(), self.namespace.name());
        let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone()).get(name).await;
        let validating = Api::<ValidatingWebhookConfiguration>::all(client.clone()).get(name).await;
        [
            to_value(mutating.must("get the mutating configuration")),
            to_value(validating.must("get the validating configuration")),
        ]
        .map(|object| object.must("read a configuration"))
    }

    /// The resourceVersions of all that the controller keeps.
    pub async fn versions(&self) -> Vec<String> {
        let names = Self::names(self.namespace);
        let secrets = self.secrets();
        let [ca, leaf] = [secrets.get(&names.ca_secret).await, secrets.get(&names.tls_secret).await];
        let [mutating, validating] = self.registrations().await;
        [ca, leaf, mutating, validating].iter().map(|object| version(object).to_owned()).collect()
    }
}

async fn create_service(namespace: &TestNamespace, port: u16) {
    let service = json!({
        "metadata": {"name": NAME},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": port}]},
    });
    let service: Service = from_value(service).must("make a Service");
    let services = Api::namespaced(namespace.client().clone(), namespace.name());
    services.create(&PostParams::default(), &service).await.must("create a Service");
}

/// As the chart does, without a `caBundle`.
async fn register(namespace: &TestNamespace, port: u16) {
    let endpoint = |path: &str| WebhookClientConfig {
        service: Some(ServiceReference {
            name: NAME.into(),
            namespace: namespace.name().into(),
            path: Some(path.into()),
            port: Some(port.into()),
        }),
        ..WebhookClientConfig::default()
    };
    let labels = [("kubernetes.io/metadata.name".to_owned(), namespace.name().to_owned())].into();
    let only_here = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    let mut mutating = registration::mutating(namespace.name(), &endpoint, Some(only_here.clone()));
    mutating.metadata.owner_references = Some(vec![owner(namespace)]);
    let mut validating = registration::validating(namespace.name(), &endpoint, Some(only_here));
    validating.metadata.owner_references = Some(vec![owner(namespace)]);
    // A machine that also builds may be busy.
    let patient = Some(PATIENCE);
    mutating.webhooks.iter_mut().flatten().for_each(|webhook| webhook.timeout_seconds = patient);
    validating.webhooks.iter_mut().flatten().for_each(|webhook| webhook.timeout_seconds = patient);
    let client = namespace.client();
    let params = PostParams::default();
    Api::all(client.clone()).create(&params, &mutating).await.must("register the mutating webhook");
    Api::all(client.clone()).create(&params, &validating).await.must("register the validating webhook");
}

/// Shows the Secret in `mount` whenever it changes; what it showed stays while there is none.
async fn show(secrets: Api<Secret>, mut mount: Mount) {
    let mut ticks = interval(SYNC);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shown = None;
    loop {
        ticks.tick().await;
        let Ok(Some(secret)) = secrets.get_opt(&format!("{NAME}-tls")).await else { continue };
        if secret.metadata.resource_version == shown {
            continue;
        }
        let data = secret.data.unwrap_or_default();
        let file = |key: &str| data.get(key).map_or(&[][..], |value| &value.0);
        mount.put_files(file(CERTIFICATE_FILE), file(KEY_FILE)).must("update a mount");
        shown = secret.metadata.resource_version;
    }
}
