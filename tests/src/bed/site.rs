//! The operator as people have it: a release of the chart, whose pods run on a node.
//!
//! A release owns the CRD and serves all namespaces, so each [`Site`] is a cluster of its own. A test that fails prints what its pods
//! and the cluster's events say.

use std::path::Path;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{Api, ListParams, LogParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde_json::{Value, json};
use webservice_api::WebService;
use webservice_certs::{CERTIFICATE_FILE, KEY_FILE, Pair};

use super::builders::{WebServiceBuilder, webservice};
use super::command::Tool;
use super::eventually::within;
use super::must::Must;
use super::objects::{Objects, is_ready};
use crate::cluster::assets::{self, Part};
use crate::cluster::process::CommandLine;
use crate::cluster::progress::Silent;
use crate::cluster::tools::{self, CERT_MANAGER, HELM_4};
use crate::cluster::{Options, TemporaryCluster, Tier};
use crate::helm::{Answer, Helm, chart};
use crate::image::Image;
use crate::operator_image::{self, LOCAL, Profile};

/// The operator's namespace.
pub const OPERATOR: &str = "webservice-system";
/// The release's name.
pub const RELEASE: &str = "webservice-operator";
/// Where the WebServices of a test are.
pub const SHOP: &str = "shop";
/// A kubelet that shows a changed Secret to its pods within seconds.
const QUICK: Duration = Duration::from_secs(2);

/// A cluster with a node that has the operator's image, and whatever release a test makes of it.
pub struct Site {
    cluster: TemporaryCluster,
    client: Client,
    image: Image,
}

impl Site {
    /// What a Deployment, a kubelet, and whatever hangs on them may take on a busy machine.
    pub const PATIENCE: Duration = Duration::from_mins(6);
    /// The same as told to Helm and kubectl, which complain in words when it is over, and so before that.
    pub const TIMEOUT: &str = "--timeout=5m";

    /// A node whose kubelet looks after mounts every two seconds, and a namespace for the operator that admits none but restricted pods.
    pub async fn new() -> Self {
        Self::with(Some(QUICK)).await
    }

    /// The same with the kubelet's own habits: a pod may see a changed Secret 77 s later.
    pub async fn with_a_slow_kubelet() -> Self {
        Self::with(None).await
    }

    async fn with(kubelet_sync: Option<Duration>) -> Self {
        let profile = if crate::prove::is_full() { Profile::Release } else { Profile::Dev };
        let options = Options { kubelet_sync, ..Options::default() };
        let (image, cluster) = tokio::join!(
            operator_image::build(LOCAL, profile),
            TemporaryCluster::up(Tier::Node, &options, &Silent)
        );
        let (image, cluster) = (image.must("build the operator's image"), cluster.must("start a node"));
        cluster.load_image(&image).await.must("load the operator's image");
        let client = cluster.client().await.must("reach the cluster");
        let site = Self { cluster, client, image };
        let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        site.create_namespace(OPERATOR, &restricted).await;
        site.create_namespace(SHOP, &json!({})).await;
        site
    }

    async fn create_namespace(&self, name: &str, labels: &Value) {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}));
        let namespace: Namespace = namespace.must("make a namespace");
        let api = Api::all(self.client.clone());
        api.create(&PostParams::default(), &namespace).await.must("create a namespace");
    }

    /// The administrator's client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Gives the node the image under another name.
    pub async fn tag_image(&self, name: &str) {
        let image = Image { name: name.to_owned(), ..self.image.clone() };
        self.cluster.load_image(&image).await.must("load the image under another name");
    }

    /// Runs a command of Helm in the operator's namespace.
    pub async fn try_helm(&self, version: &Part, arguments: &[&str]) -> Answer {
        let helm = Helm::new(version, &Silent).await.must("build Helm").on(&self.cluster.kubeconfig_path());
        helm.run(&[arguments, &["--namespace", OPERATOR]].concat()).await.must("run Helm")
    }

    /// The same, and it must succeed.
    pub async fn helm(&self, version: &Part, arguments: &[&str]) {
        let answer = self.try_helm(version, arguments).await;
        assert!(answer.is_ok(), "{} {arguments:?}: {answer:?}", version.name);
    }

    /// `helm install` or `upgrade` of the chart, until everything is ready.
    pub async fn deploy(&self, version: &Part, command: &str, values: &[&str]) {
        self.deploy_chart(&chart(), version, command, values).await;
    }

    /// The same of another chart than the repository's.
    pub async fn deploy_chart(&self, chart: &Path, version: &Part, command: &str, values: &[&str]) {
        let (chart, image) = (chart.display().to_string(), operator_image::values(LOCAL));
        let what = [command, RELEASE, &chart, "--wait", Self::TIMEOUT, &image];
        self.helm(version, &[&what, values].concat()).await;
    }

    /// `helm install` by the newest Helm.
    pub async fn install(&self, values: &[&str]) {
        self.deploy(&HELM_4, "install", values).await;
    }

    /// `helm upgrade` by the newest Helm, with these values over those that the release has.
    pub async fn upgrade(&self, values: &[&str]) {
        self.deploy(&HELM_4, "upgrade", &[&["--reset-then-reuse-values"], values].concat()).await;
    }

    /// kubectl, as the administrator.
    #[must_use]
    pub fn kubectl<const N: usize>(&self, arguments: [&str; N]) -> Tool {
        Tool::new(self.cluster.kubectl()).args(arguments).within(Self::PATIENCE)
    }

    /// `kubectl webservice`, as the administrator.
    #[must_use]
    pub fn plugin<const N: usize>(&self, arguments: [&str; N]) -> Tool {
        let kubeconfig = self.cluster.kubeconfig_path();
        Tool::binary("kubectl-webservice")
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .within(Self::PATIENCE)
    }

    /// Objects of one kind in one namespace, or in the cluster for an empty one.
    #[must_use]
    pub fn objects<K: Resource<DynamicType = ()>>(&self, namespace: &str) -> Objects {
        Objects::new(self.client.clone(), ApiResource::erase::<K>(&()), namespace)
    }

    /// Objects of a kind that only its definition knows.
    #[must_use]
    pub fn objects_of(&self, resource: ApiResource, namespace: &str) -> Objects {
        Objects::new(self.client.clone(), resource, namespace)
    }

    /// The WebServices.
    #[must_use]
    pub fn webservices(&self) -> Objects {
        self.objects::<WebService>(SHOP)
    }

    /// The operator's Secrets.
    #[must_use]
    pub fn secrets(&self) -> Objects {
        self.objects::<Secret>(OPERATOR)
    }

    /// Waits until a WebService is Ready.
    pub async fn await_ready(&self, name: &str) -> Value {
        self.webservices().await_that(name, "is Ready", is_ready).await
    }

    /// What people do first: a WebService is completed, a wrong one refused, and the first becomes Ready.
    pub async fn assert_works(&self, name: &str) {
        let stored = self.webservices().create(webservice(name)).await;
        assert_eq!((&stored["spec"]["replicas"], &stored["spec"]["tier"]), (&json!(1), &json!("dev")));
        let refusal = self.webservices().rejects(refused("wrong")).await;
        assert!(refusal.message.contains("validate.webservices.apps.labhub.io"), "{refusal}");
        self.await_ready(name).await;
        let maps = self.objects::<k8s_openapi::api::core::v1::ConfigMap>(SHOP);
        assert_eq!(maps.get(&format!("{name}-desired")).await["data"]["image"], "nginx:1.27");
    }

    /// The pods of a component, without those that are on their way out.
    pub async fn pods(&self, component: &str) -> Vec<Pod> {
        let labels = ListParams::default().labels(&format!("app.kubernetes.io/component={component}"));
        let pods = Api::<Pod>::namespaced(self.client.clone(), OPERATOR).list(&labels).await;
        let pods = pods.must("list pods").items.into_iter();
        pods.filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    /// The serial number of the certificate in the Secret that the webhook serves from, as the webhook logs it.
    pub async fn issued(&self, secret: &str) -> String {
        let stored = Api::<Secret>::namespaced(self.client.clone(), OPERATOR).get(secret).await;
        let data = stored.must("get the webhook's Secret").data.unwrap_or_default();
        let file = |key: &str| data.get(key).map_or(&[][..], |value| &value.0);
        let pair = Pair::from_pem(file(CERTIFICATE_FILE), file(KEY_FILE));
        pair.must("read the webhook's certificate").serial().to_owned()
    }

    /// Waits until every pod of the webhook presents the certificate that is in the Secret.
    pub async fn await_presented(&self, secret: &str) {
        let issued = self.issued(secret).await;
        within(Self::PATIENCE, "every pod of the webhook presents what is in the Secret", async || {
            for pod in self.pods("webhook").await {
                let presented = self.presented(&pod).await;
                if presented.as_deref() != Some(&issued) {
                    return Err(format!("{presented:?} instead of {issued}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// The serial number of the certificate that a pod presents, by its log.
    async fn presented(&self, pod: &Pod) -> Option<String> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), OPERATOR);
        let log = pods.logs(pod.metadata.name.as_deref()?, &LogParams::default()).await.ok()?;
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let last = lines.rfind(|line| line["message"] == "presenting a new certificate")?;
        last["serial"].as_str().map(ToOwned::to_owned)
    }

    /// The real cert-manager, beside the cluster: it calls the API server and is called by nobody.
    pub async fn start_cert_manager(&self) {
        let crds = tools::cert_manager_crds().await.must("find cert-manager's CRDs").display().to_string();
        self.kubectl(["apply", "--server-side", "--filename", &crds]).await.succeeds();
        self.kubectl(["wait", "--for=condition=Established", "crd", "--all", Self::TIMEOUT]).await.succeeds();
        let program = assets::program(&CERT_MANAGER, &Silent).await.must("build cert-manager");
        let kubeconfig = format!("--kubeconfig={}", self.cluster.kubeconfig_path().display());
        let daemon = self.cluster.daemon("cert-manager");
        daemon.start(&CommandLine::new(program).arg(kubeconfig)).must("start cert-manager");
        let runs = async || {
            let log = std::fs::read_to_string(daemon.log_path())?;
            anyhow::ensure!(log.contains("cert-manager runs"), "it does not say yet that it runs");
            Ok(())
        };
        daemon.ready(Self::PATIENCE, runs).await.must("see cert-manager run");
    }

    /// What a person would look at first. A panic here would end all tests at once, so what fails is only missed.
    fn dump(&self) {
        let logs = "--all-containers --prefix --tail=40 --ignore-errors";
        for line in [
            "get pods,jobs,deployments,webservices --all-namespaces --output=wide".to_owned(),
            "get events --all-namespaces --sort-by=.lastTimestamp".to_owned(),
            format!("logs --namespace={OPERATOR} --selector=app.kubernetes.io/name={RELEASE} {logs}"),
        ] {
            let mut kubectl = self.cluster.kubectl();
            if let Ok(output) = kubectl.arg("--request-timeout=20s").args(line.split(' ')).output() {
                eprintln!("── kubectl {line}\n{}", String::from_utf8_lossy(&output.stdout));
            }
        }
        eprintln!("── cert-manager\n{}", self.cluster.daemon("cert-manager").log_tail());
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if thread::panicking() {
            self.dump();
        }
    }
}

/// A WebService that the schema takes and only the validating webhook refuses.
#[must_use]
pub fn refused(name: &str) -> WebServiceBuilder {
    webservice(name).image(&"a".repeat(webservice_api::image::MAX_PATH + 1))
}
