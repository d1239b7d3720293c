//! Helm, and what it renders.

use serde_json::Value;
use webservice_tests::cluster::assets::{Part, kubernetes_version};
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::{HELM_3, HELM_4};
use webservice_tests::helm::{Answer, Helm, chart};

/// Both supported major versions.
pub(crate) const VERSIONS: [&Part; 2] = [&HELM_3, &HELM_4];

/// Values with which everything that can be switched on is there.
pub(crate) const EVERYTHING: &[&str] = &[
    "networkPolicy.enabled=true",
    "monitoring.serviceMonitor.enabled=true",
    "monitoring.prometheusRule.enabled=true",
    "monitoring.dashboard.enabled=true",
    "webhook.autoscaling.enabled=true",
    "webhook.policy.allowedTiers={dev}",
    "webhook.clientCertificate.configMapName=api-server-ca",
    "imagePullSecrets[0].name=registry",
    "controller.metrics.auth=true",
    "controller.metrics.tlsSecretName=metrics-tls",
];

/// The values of each TLS mode.
pub(crate) const MODES: [&[&str]; 4] = [
    &["tls.mode=self-managed"],
    &["tls.mode=cert-manager"],
    &["tls.mode=secret", "tls.secret.name=mine"],
    &["tls.mode=secret", "tls.secret.name=mine", "tls.secret.caBundle=-----BEGIN CERTIFICATE-----"],
];

/// A command of one version of Helm that needs no cluster.
pub(crate) async fn helm<S: AsRef<str>>(version: &Part, arguments: &[S]) -> Answer {
    Helm::new(version, &Silent).await.unwrap().run(arguments).await.unwrap()
}

/// A release to be rendered.
#[derive(Debug)]
pub(crate) struct Release {
    name: String,
    namespace: String,
    arguments: Vec<String>,
}

impl Release {
    pub(crate) fn new() -> Self {
        Self::named("webservice-operator", "webservice-system")
    }

    pub(crate) fn named(name: &str, namespace: &str) -> Self {
        Self { name: name.into(), namespace: namespace.into(), arguments: Vec::new() }
    }

    /// Sets values, each in the form of `--set`.
    pub(crate) fn set(mut self, values: &[&str]) -> Self {
        self.arguments.extend(values.iter().map(|value| format!("--set={value}")));
        self
    }

    /// Takes a values file of the chart.
    pub(crate) fn values(mut self, file: &str) -> Self {
        self.arguments.push(format!("--values={}", chart().join(file).display()));
        self
    }

    /// Adds an argument of `helm template`.
    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// A command of Helm about this release: `template`, `install`, `upgrade`.
    pub(crate) fn command(&self, command: &str) -> Vec<String> {
        let chart = chart().display().to_string();
        let words = [command, &self.name, &chart, "--namespace", &self.namespace].map(ToOwned::to_owned);
        words.into_iter().chain(self.arguments.iter().cloned()).collect()
    }

    /// The text that Helm renders, or its complaint.
    pub(crate) async fn try_text(&self, version: &Part) -> Answer {
        let mut arguments = self.command("template");
        // Without a cluster, Helm 3 takes it for a very old one. An argument of the test's own wins, since it comes later.
        arguments.insert(1, format!("--kube-version={}", kubernetes_version().unwrap()));
        helm(version, &arguments).await
    }

    /// The text that the newest Helm renders.
    pub(crate) async fn text(&self) -> String {
        self.try_text(&HELM_4).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What the newest Helm renders.
    pub(crate) async fn render(&self) -> Manifests {
        let text = self.text().await;
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Manifests(objects.into_iter().filter(|object| !object.is_null()).collect())
    }
}

/// Rendered objects.
#[derive(Debug)]
pub(crate) struct Manifests(Vec<Value>);

impl Manifests {
    pub(crate) fn all(&self) -> &[Value] {
        &self.0
    }

    /// All objects of a kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The object of a kind whose name ends so.
    pub(crate) fn one(&self, kind: &str, suffix: &str) -> &Value {
        let mut found = self.of(kind).into_iter().filter(|object| name(object).ends_with(suffix));
        let one = found.next().unwrap_or_else(|| panic!("no {kind} …{suffix}"));
        assert!(found.next().is_none(), "more than one {kind} …{suffix}");
        one
    }

    /// The pod specifications in all objects, each with the name of its object.
    pub(crate) fn pods(&self) -> Vec<(&str, &Value)> {
        self.0
            .iter()
            .filter_map(|object| match object["kind"].as_str()? {
                "Deployment" | "Job" => Some((name(object), &object["spec"]["template"]["spec"])),
                "Pod" => Some((name(object), &object["spec"])),
                _ => None,
            })
            .collect()
    }
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_else(|| panic!("{object} has no name"))
}

/// The strings of an array.
pub(crate) fn strings(array: &Value) -> Vec<&str> {
    if array.is_null() {
        return Vec::new();
    }
    let items = array.as_array().unwrap_or_else(|| panic!("{array} is no array"));
    items.iter().filter_map(Value::as_str).collect()
}
