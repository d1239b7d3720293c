//! `check-webhook`: the question of [`registered`](crate::registered), asked once by a person or a test.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use webservice_ops::args::positive_duration;
use webservice_ops::logging::LogArgs;

use crate::client::{self, ClientError};
use crate::leadership::Standing;
use crate::registered::{Answer, ask};

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// Checks that the API server calls both webhooks, by creations that are not stored
#[derive(Clone, Debug, Args)]
pub struct CheckWebhookArgs {
    /// Kubeconfig file. Default: $KUBECONFIG, then the pod's service account, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace to create in: one that the webhook serves. Default: that of the pod, or of the kubeconfig's context
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// How long to wait for it
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    pub timeout: Duration,

    /// The log
    #[command(flatten)]
    pub log: LogArgs,
}

/// Why the check failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckWebhookError {
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The webhook was not called in time.
    #[error("failed to find the webhook called within {} s: {reason}", within.as_secs())]
    NotCalled {
        /// The time that there was.
        within: Duration,
        /// What was seen last.
        reason: String,
    },
}

/// Asks until the webhook is called.
///
/// # Errors
/// It was not in time; what was seen last.
pub async fn run(args: CheckWebhookArgs, shutdown: CancellationToken) -> Result<(), CheckWebhookError> {
    let cluster = client::config(args.kubeconfig.clone()).await?;
    let client = client::calling(&cluster, |_: &http::Method, _| (), Standing::unopposed().fence())?;
    let namespace = args.namespace.unwrap_or(cluster.default_namespace);
    let deadline = Instant::now() + args.timeout;
    loop {
        let (Answer::NotCalled(reason) | Answer::Unknown(reason)) = ask(&client, &namespace).await else {
            tracing::info!(namespace, "the API server calls both webhooks");
            return Ok(());
        };
        if Instant::now() >= deadline || shutdown.run_until_cancelled(sleep(PAUSE)).await.is_none() {
            return Err(CheckWebhookError::NotCalled { within: args.timeout, reason });
        }
    }
}
