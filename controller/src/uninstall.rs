//! The last step of a release: after it nothing can hang on a finalizer that nobody would remove.
//!
//! The order is the only one in which no step can block the next. The registration goes first: once the webhook's pods are gone, validation
//! would refuse every write, and until then the mutating webhook would put the finalizer back. Then the controller, which
//! would put it back as well; then the finalizers; the Secrets of the certificates last. Each step is idempotent.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use webservice_api::constants::FIELD_MANAGER;
use webservice_ops::args::positive_duration;
use webservice_ops::logging::LogArgs;

use crate::client::{self, ClientError};
use crate::config::scopes;
use crate::engine::Scope;
use crate::engine::lease::{BootClock, Clock};
use crate::failure::Failure;
use crate::leadership::{LEASE, Standing};
use crate::registration::Registrations;
use crate::release;
use crate::tenure::{Tenure, Verdict};
use crate::writes::call;

/// Before what did not succeed is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Prepares the removal of the operator: no WebService hangs afterwards on a finalizer that nobody removes.
///
/// In this order: deletes the webhook's registration, scales the controller to 0, waits until nobody leads, removes the finalizer
/// from all WebServices, deletes Secrets. Safe to repeat.
#[derive(Clone, Debug, Args)]
pub struct UninstallArgs {
    /// Kubeconfig file. Default: $KUBECONFIG, then the pod's service account, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the operator. Default: that of the pod, or of the kubeconfig's context
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Name of the webhook's mutating and validating configuration
    #[arg(long, value_name = "NAME")]
    pub webhook_configuration: String,

    /// Deployment of the controller
    #[arg(long, value_name = "NAME")]
    pub deployment: Option<String>,

    /// Secret to delete, such as those that the controller keeps certificates in. May be given several times
    #[arg(long = "secret", value_name = "NAME")]
    pub secrets: Vec<String>,

    /// Namespaces that were served, separated by commas. Default: all
    #[arg(long, value_name = "NAMESPACE,…", value_delimiter = ',')]
    pub namespaces: Vec<String>,

    /// How long it may take in all
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = positive_duration)]
    pub timeout: Duration,

    /// The log
    #[command(flatten)]
    pub log: LogArgs,
}

/// Why not all was done.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A step did not come to its end in time.
    #[error(
        "failed to {step} within {} s: {reason}; not done: {}. Run it again, or go on without it: kubectl delete \
         mutatingwebhookconfigurations,validatingwebhookconfigurations {registration}, then helm uninstall --no-hooks, then kubectl \
         webservice release --all-namespaces --operator-namespace={namespace} --yes",
        within.as_secs(),
        left.join(", ")
    )]
    Step {
        /// The step.
        step: &'static str,
        /// The time that it had.
        within: Duration,
        /// What stood in its way at last.
        reason: String,
        /// This step and those after it.
        left: Vec<&'static str>,
        /// The registration's name.
        registration: String,
        /// The operator's namespace.
        namespace: String,
    },
    /// The process was told to stop.
    #[error("failed to finish: told to stop; run it again")]
    Stopped,
}

/// Carries everything out.
///
/// # Errors
/// What was not done, why, and how to go on.
pub async fn run(args: UninstallArgs, shutdown: CancellationToken) -> Result<(), UninstallError> {
    let cluster = client::config(args.kubeconfig.clone()).await?;
    let client = client::calling(&cluster, |_: &http::Method, _| (), Standing::unopposed().fence())?;
    let namespace = args.namespace.clone().unwrap_or(cluster.default_namespace);
    let mut uninstall = Uninstall { client, namespace, args, tenure: Tenure::default() };
    shutdown.run_until_cancelled(uninstall.run()).await.unwrap_or(Err(UninstallError::Stopped))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Deregister,
    StopController,
    AwaitLease,
    Release,
    DeleteSecrets,
}

impl Step {
    const ALL: [Self; 5] =
        [Self::Deregister, Self::StopController, Self::AwaitLease, Self::Release, Self::DeleteSecrets];

    const fn what(self) -> &'static str {
        match self {
            Self::Deregister => "delete the webhook's registration",
            Self::StopController => "scale the controller to 0",
            Self::AwaitLease => "wait until nobody leads",
            Self::Release => "release the WebServices",
            Self::DeleteSecrets => "delete the Secrets",
        }
    }
}

/// What stands in the way of a step. It is tried again.
#[derive(Debug, thiserror::Error)]
enum Setback {
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error("{0} leads")]
    Held(String),
    #[error("{left} WebServices still have the finalizer{}", why(failure.as_ref()))]
    Left { left: usize, failure: Option<Failure> },
}

fn why(failure: Option<&Failure>) -> String {
    failure.map_or_else(String::new, |failure| format!("; of one: {failure}"))
}

struct Uninstall {
    client: Client,
    namespace: String,
    args: UninstallArgs,
    tenure: Tenure,
}

impl Uninstall {
    async fn run(&mut self) -> Result<(), UninstallError> {
        let deadline = Instant::now() + self.args.timeout;
        for (index, step) in Step::ALL.into_iter().enumerate() {
            let within = deadline.saturating_duration_since(Instant::now());
            let done = self.try_for(within, step).await.map_err(|reason| UninstallError::Step {
                step: step.what(),
                within,
                reason,
                left: Step::ALL[index..].iter().map(|step| step.what()).collect(),
                registration: self.args.webhook_configuration.clone(),
                namespace: self.namespace.clone(),
            })?;
            tracing::info!(step = index + 1, of = Step::ALL.len(), "{}: {done}", step.what());
        }
        Ok(())
    }

    /// Repeats a step until it succeeds. What was done, or what stood in its way at last.
    async fn try_for(&mut self, within: Duration, step: Step) -> Result<String, String> {
        let mut last = "no answer".to_owned();
        let tries = async {
            loop {
                match self.carry_out(step).await {
                    Ok(done) => break done,
                    Err(setback) => last = setback.to_string(),
                }
                sleep(PAUSE).await;
            }
        };
        timeout(within, tries).await.map_err(|_| last)
    }

    async fn carry_out(&mut self, step: Step) -> Result<String, Setback> {
        match step {
            Step::Deregister => {
                Registrations::new(&self.client, &self.args.webhook_configuration).delete().await?;
                Ok("gone".to_owned())
            }
            Step::StopController => self.stop_controller().await,
            Step::AwaitLease => self.await_lease().await,
            Step::Release => self.release().await,
            Step::DeleteSecrets => self.delete_secrets().await,
        }
    }

    async fn stop_controller(&self) -> Result<String, Setback> {
        let Some(name) = &self.args.deployment else { return Ok("none was named".to_owned()) };
        let api = Api::<Deployment>::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
        match call("scale the deployment", api.patch_scale(name, &params, &patch)).await {
            Ok(_) => Ok("done".to_owned()),
            Err(Failure::NotFound) => Ok("it does not exist".to_owned()),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn await_lease(&mut self) -> Result<String, Setback> {
        let api = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let lease = call("get the lease", api.get_opt(LEASE)).await?;
        let verdict = self.tenure.saw(lease.as_ref(), BootClock.now());
        match (verdict, lease) {
            (Verdict::Led(holder) | Verdict::Unclear { holder, .. }, _) => Err(Setback::Held(holder)),
            (Verdict::Free, None) => Ok("nobody does".to_owned()),
            (Verdict::Free, Some(Lease { metadata, .. })) => {
                let preconditions =
                    Preconditions { uid: metadata.uid, resource_version: metadata.resource_version };
                let params = DeleteParams::default().preconditions(preconditions);
                match call("delete the lease", api.delete(LEASE, &params)).await {
                    Ok(_) | Err(Failure::NotFound) => Ok("nobody does; the lease is deleted".to_owned()),
                    Err(failure) => Err(failure.into()),
                }
            }
        }
    }

    /// Until a round finds nothing to be released: API servers take a moment to notice that the webhook, which would put the finalizer
    /// back, is not registered any more.
    async fn release(&self) -> Result<String, Setback> {
        let scopes: Vec<Scope> = scopes(&self.args.namespaces);
        let mut released = 0;
        loop {
            let round = release::round(&self.client, &scopes).await?;
            released += round.released;
            match (round.left, round.released) {
                (0, 0) => return Ok(format!("{released} released")),
                (0, _) => {}
                (left, _) => return Err(Setback::Left { left, failure: round.failure }),
            }
        }
    }

    async fn delete_secrets(&self) -> Result<String, Setback> {
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        for name in &self.args.secrets {
            match call("delete the Secret", api.delete(name, &DeleteParams::default())).await {
                Ok(_) | Err(Failure::NotFound) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(format!("{} gone", self.args.secrets.len()))
    }
}
