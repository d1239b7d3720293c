//! The namespace that a test has for itself.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::core::ApiResource;
use kube::{Api, Client, Resource};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::OnceCell;
use webservice_api::{WebService, rbac};

use super::account::{self, Account};
use super::audit::{Audit, Call, Calls, Mark, Tail};
use super::command::Tool;
use super::controller::{Controller, ControllerSetup};
use super::dump::dump;
use super::must::Must;
use super::objects::{Objects, condition, is_observed, is_ready, name, no_finalizers};
use super::operator::OperatedNamespace;
use super::policy::Policy;
use super::test_cluster::{TestCluster, client};
use super::webhook::{Webhook, WebhookSetup};

/// Says that a namespace is a test's.
const LABEL: &str = "webservice.labhub.io/test";
/// Names of namespaces are DNS labels of at most 63 characters.
const LONGEST_SLUG: usize = 40;

/// A namespace with a name of its own. When the value goes, so do the namespace and all that is in it; if the test has
/// failed, what explains it is printed before.
pub struct TestNamespace {
    name: String,
    uid: String,
    cluster: TestCluster,
    directory: PathBuf,
    account: OnceCell<Account>,
    count: AtomicU32,
}

impl TestNamespace {
    /// A namespace of the suite's cluster in which nothing of ours runs: to all appearances the webhook and the controller
    /// are away.
    pub async fn new() -> Self {
        Self::create(TestCluster::shared().await).await
    }

    /// The same with a webhook that serves it, and no controller.
    pub async fn with_webhook() -> (Self, Webhook) {
        let namespace = Self::new().await;
        let webhook = namespace.start_webhook().await;
        (namespace, webhook)
    }

    /// The same with webhook and controller.
    pub async fn with_operator() -> OperatedNamespace {
        OperatedNamespace::start(Self::new().await).await
    }

    /// The same for controllers that compete for a Lease in it.
    pub async fn with_election() -> Self {
        let namespace = Self::new().await;
        namespace.grant_election().await;
        namespace
    }

    pub(super) async fn create(cluster: TestCluster) -> Self {
        let name = unique_name();
        let labels = [(LABEL.to_owned(), "true".to_owned())].into();
        let metadata = ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces = Api::<Namespace>::all(cluster.client().clone());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        let uid = created.must("create a namespace").metadata.uid.unwrap_or_default();
        let directory = cluster.directory().join("tests").join(&name);
        fs::create_dir_all(&directory).must(&format!("create {}", directory.display()));
        Self { name, uid, cluster, directory, account: OnceCell::new(), count: AtomicU32::new(1) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its `metadata.uid`, for owner references.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The cluster that it is in.
    #[must_use]
    pub fn cluster(&self) -> &TestCluster {
        &self.cluster
    }

    /// The administrator's client.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.cluster.client()
    }

    /// For files. It is removed with the namespace.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A number that this namespace has not given before.
    pub(super) fn next(&self) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Its WebServices.
    #[must_use]
    pub fn webservices(&self) -> Objects {
        self.objects::<WebService>()
    }

    /// Its ConfigMaps.
    #[must_use]
    pub fn config_maps(&self) -> Objects {
        self.objects::<ConfigMap>()
    }

    /// Its Events.
    #[must_use]
    pub fn events(&self) -> Objects {
        self.objects::<Event>()
    }

    /// Its Leases.
    #[must_use]
    pub fn leases(&self) -> Objects {
        self.objects::<Lease>()
    }

    /// Its objects of another kind.
    #[must_use]
    pub fn objects<K: Resource<DynamicType = ()>>(&self) -> Objects {
        Objects::new(self.client().clone(), ApiResource::erase::<K>(&()), &self.name)
    }

    /// Waits until a WebService is Ready, of its spec as it is now.
    pub async fn await_ready(&self, name: &str) -> Value {
        self.webservices().await_that(name, "is Ready", is_ready).await
    }

    /// Waits until the Ready condition of a WebService gives this reason, of its spec as it is now.
    pub async fn await_reason(&self, name: &str, reason: &str) -> Value {
        let has_reason =
            |object: &Value| condition(object, "Ready")["reason"] == reason && is_observed(object);
        self.webservices().await_that(name, &format!("has reason {reason}"), has_reason).await
    }

    /// Starts a webhook that serves this namespace alone, and waits until the API server calls it.
    pub async fn start_webhook(&self) -> Webhook {
        self.webhook().start().await
    }

    /// A webhook that is yet to be started.
    pub fn webhook(&self) -> WebhookSetup<'_> {
        WebhookSetup::new(self)
    }

    /// Starts a webhook with this policy (YAML).
    pub async fn start_webhook_with_policy(&self, policy: &str) -> Webhook {
        let file = self.directory.join(format!("policy-{}.yaml", self.next()));
        fs::write(&file, policy).must("write a policy");
        self.webhook().flags([format!("--policy={}", file.display())]).start().await
    }

    /// Starts a controller that serves this namespace alone, and waits until it is ready.
    pub async fn start_controller(&self) -> Controller {
        self.controller().start().await
    }

    /// A controller that is yet to be started.
    pub fn controller(&self) -> ControllerSetup<'_> {
        ControllerSetup::new(self)
    }

    /// The account of this namespace's controllers.
    pub async fn account(&self) -> &Account {
        self.account.get_or_init(|| Account::create(self, rbac::controller())).await
    }

    /// A token of that account which [`Self::revoke_token`] ends.
    pub async fn token(&self, name: &str) -> String {
        self.account().await;
        account::revocable_token(self.client(), &self.name, name).await
    }

    /// Ends a token from one moment to the next.
    pub async fn revoke_token(&self, name: &str) {
        account::revoke_token(self.client(), &self.name, name).await;
    }

    /// Two further accounts with the rights of a candidate for the lead, so that the calls of several controllers can be told
    /// apart.
    pub async fn candidate_accounts(&self) -> [Account; 2] {
        self.grant_election().await;
        [Account::another(self, "controller-a").await, Account::another(self, "controller-b").await]
    }

    /// Lets the controller's account compete for a Lease, too.
    pub async fn grant_election(&self) {
        self.grant(account::candidate_rights()).await;
    }

    /// Leaves the controller's account these rights and no others.
    pub async fn grant(&self, rules: Vec<PolicyRule>) {
        self.account().await;
        account::grant(self.client(), &self.name, &self.name, rules).await;
    }

    /// Leaves the controller's account these rights and no others in another namespace.
    pub async fn grant_in(&self, other: &Self, rules: Vec<PolicyRule>) {
        self.account().await;
        account::grant(self.client(), &self.name, &other.name, rules).await;
    }

    /// Puts a policy in force that refuses whatever the CEL `expression` on `object` does not hold of, among all that is
    /// created and changed of ConfigMaps and WebServices here, but for the status.
    pub async fn forbid_unless(&self, expression: &str) -> Policy {
        Policy::validating(self, expression).await
    }

    /// Puts a policy in force that applies the list of `JSONPatch` which the CEL `expression` on `object` and `oldObject`
    /// gives, to the same.
    pub async fn rewrite(&self, expression: &str) -> Policy {
        Policy::mutating(self, expression).await
    }

    /// kubectl, with this namespace as its default.
    #[must_use]
    pub fn kubectl<const N: usize>(&self, arguments: [&str; N]) -> Tool {
        Tool::new(self.cluster.kubectl()).env("KUBECONFIG", self.kubeconfig()).args(arguments)
    }

    /// `kubectl webservice`, with this namespace as its default.
    #[must_use]
    pub fn plugin<const N: usize>(&self, arguments: [&str; N]) -> Tool {
        Tool::binary("kubectl-webservice").env("KUBECONFIG", self.kubeconfig()).args(arguments)
    }

    /// The administrator's kubeconfig with this namespace as its default.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.directory.join("kubeconfig");
        if !path.exists() {
            let mut config = Kubeconfig::read_from(self.cluster.kubeconfig_path()).must("read a kubeconfig");
            for context in config.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
                context.namespace = Some(self.name.clone());
            }
            // Every JSON is YAML.
            let text = serde_json::to_string(&config).must("write a kubeconfig");
            fs::write(&path, text).must("write a kubeconfig");
        }
        path
    }

    /// A position in the audit log: all calls until now stand before it.
    pub async fn mark(&self) -> Mark {
        Audit::of(self).mark().await
    }

    /// The calls of this namespace's controllers since then. They may be making more: see [`Self::settle`].
    pub async fn calls_since(&self, mark: &Mark) -> Calls {
        self.all_calls_since(mark).await.by(&self.account().await.user)
    }

    /// Everybody's calls since then, on the whole cluster.
    pub async fn all_calls_since(&self, mark: &Mark) -> Calls {
        Audit::of(self).calls_since(mark).await
    }

    /// Everybody's calls since then that are about an object of this name.
    pub async fn calls_about(&self, name: &str, mark: &Mark) -> Vec<Call> {
        let calls = self.all_calls_since(mark).await;
        calls.all().iter().filter(|call| call.name == name).cloned().collect()
    }

    /// The calls of everybody after the mark, as they come.
    #[must_use]
    pub fn calls_from(&self, mark: &Mark) -> Tail {
        Audit::of(self).follow(*mark)
    }

    /// What the controllers of this namespace have written since then, as `VERB RESOURCE NAME`, sorted, when all that
    /// `controller` had to do is done.
    pub async fn writes_since(&self, mark: &Mark, controller: &Controller) -> Vec<String> {
        controller.settle(self).await;
        self.calls_since(mark).await.writes()
    }

    async fn remove(&self) -> anyhow::Result<()> {
        if self.cluster.is_private() {
            // It takes the namespace along.
            return Ok(());
        }
        // Their own client was bound to the test's runtime.
        let client = client(&self.cluster).await;
        let webservices = Objects::new(client.clone(), ApiResource::erase::<WebService>(&()), &self.name);
        let config_maps = Objects::new(client.clone(), ApiResource::erase::<ConfigMap>(&()), &self.name);
        let api = Api::<kube::core::PartialObjectMeta<WebService>>::namespaced(client.clone(), &self.name);
        // There may be no CRD any more.
        _ = api.delete_collection(&DeleteParams::background(), &ListParams::default()).await;
        for objects in [webservices, config_maps] {
            for held in objects.try_list().await.unwrap_or_default() {
                if held["metadata"]["finalizers"].is_array() {
                    // It may have gone meanwhile.
                    _ = objects.try_merge(name(&held), &no_finalizers()).await;
                }
            }
        }
        match Api::<Namespace>::all(client).delete(&self.name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if !status.is_not_found() && !status.is_conflict() => Err(status)?,
            _ => Ok(fs::remove_dir_all(&self.directory)?),
        }
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        if thread::panicking() {
            let dumped = wait_for(dump(&self.name, &self.cluster, &self.directory));
            eprintln!("{}", dumped.unwrap_or_default());
        }
        if env::var_os("KEEP").is_some() {
            eprintln!("kept: namespace {} and {}", self.name, self.directory.display());
        } else if let Some(Err(error)) = wait_for(self.remove()) {
            eprintln!("failed to remove namespace {}: {error:#}", self.name);
        }
    }
}

/// Destructors cannot await: the future runs to its end on a thread of its own. Where it panics the test fails; one that has failed already
/// goes on, since a second panic would end all tests at once.
fn wait_for<T: Send>(future: impl Future<Output = T> + Send) -> Option<T> {
    thread::scope(|scope| {
        let run =
            || Builder::new_current_thread().enable_all().build().must("make a runtime").block_on(future);
        match scope.spawn(run).join() {
            Ok(value) => Some(value),
            Err(_) if thread::panicking() => None,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Tells which run and which test it is of.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let thread = thread::current();
    let test = thread.name().unwrap_or("test");
    format!("t-{}-{count}-{}", std::process::id(), slug(test))
}

/// The end of a test's path, as a DNS label may have it.
fn slug(test: &str) -> String {
    let last = test.rsplit("::").next().unwrap_or(test).replace('_', "-").to_lowercase();
    last.chars().take(LONGEST_SLUG).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slug_of_a_long_sentence_is_a_label() {
        assert_eq!(slug("suite::lab::step_1_observe"), "step-1-observe");
        let long = slug("x::a_child_that_is_edited_by_hand_is_put_back_with_one_write");
        assert_eq!(long, "a-child-that-is-edited-by-hand-is-put-ba");
    }
}
