//! The webhook's certificates and whom the API server trusts: kept by whoever leads.
//!
//! ```text
//!  Secret …-ca   ──► state ──► plan (pure) ──► one write ──┐
//!  Secret …-tls  ──►   ▲                                   │   until it rests
//!  registrations ──►   └───────────────────────────────────┘
//! ```
//!
//! A pass reads both Secrets and both configurations, by name, and derives all the rest from them. Writes carry the version that
//! was read, so two who both think that they lead come to the same state. Where somebody else makes the certificate, only the
//! registrations are written, from a file with the CAs.

mod args;
mod file;
mod metrics;
pub mod plan;
mod secret;
mod self_managed;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use webservice_certs::{Bundle, IssueError};

pub use self::args::WebhookArgs;
use self::file::TrustFile;
pub use self::metrics::CertificateMetrics;
pub use self::secret::ROTATE;
use self::self_managed::SelfManaged;
use crate::failure::{Failure, with_sources};
use crate::registration::{Kind, Registration, Registrations};

/// How often a state that needs nothing is looked at again.
const PERIOD: Duration = Duration::from_secs(10);
/// How soon what is missing or has failed is looked at again, at first.
const SOON: Duration = Duration::from_secs(1);

/// Why a pass did not come to its end. The next one begins anew.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{object}: {failure}")]
    Request { object: String, failure: Failure },
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("failed to read the CAs from {}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("failed to come to rest: somebody undoes what is written to Secrets or registrations")]
    Restless,
}

/// Names what a failed request was about.
fn about(object: String) -> impl FnOnce(Failure) -> Problem {
    move |failure| Problem::Request { object, failure }
}

/// What a pass came to.
struct Rest {
    /// When to look again.
    after: Duration,
    /// What is missing that others have to make.
    missing: Option<String>,
}

/// Keeps what is to be kept, if anything, until `stop`.
pub async fn keep(keeper: Option<Keeper>, stop: &CancellationToken) {
    if let Some(keeper) = keeper {
        // Boxed: what is seldom done should not make the controller's own future large.
        Box::pin(keeper.run(stop)).await;
    }
}

enum Source {
    SelfManaged(Box<SelfManaged>),
    File(Box<TrustFile>),
}

/// Keeps certificates and trust as they are to be.
pub struct Keeper {
    source: Source,
    metrics: CertificateMetrics,
    /// What was said last, since it is said once.
    told: Option<String>,
}

impl Keeper {
    /// A keeper for what `args` ask for in `namespace`; none where they ask for nothing to be kept. `client` is the leader's.
    #[must_use]
    pub fn new(
        args: &WebhookArgs,
        namespace: &str,
        client: &Client,
        metrics: CertificateMetrics,
    ) -> Option<Self> {
        let registrations = Registrations::new(client, args.webhook_configuration.as_ref()?);
        let source =
            match (SelfManaged::new(args, namespace, client, &registrations, &metrics), &args.ca_bundle) {
                (Some(own), _) => Source::SelfManaged(own.into()),
                (None, Some(path)) => Source::File(TrustFile::new(path.clone(), registrations).into()),
                (None, None) => return None,
            };
        Some(Self { source, metrics, told: None })
    }

    /// Makes a pass now and whenever one is due, until `stop`.
    async fn run(mut self, stop: &CancellationToken) {
        let mut failures = 0;
        let keep = async {
            loop {
                let pause = match self.pass(Timestamp::now()).await {
                    Ok(rest) => {
                        failures = 0;
                        self.say_once(rest.missing);
                        rest.after
                    }
                    Err(problem) => {
                        self.metrics.failed();
                        self.say_once(Some(with_sources(&problem)));
                        failures += 1;
                        back_off(failures)
                    }
                };
                sleep(pause).await;
            }
        };
        stop.run_until_cancelled(keep).await;
    }

    async fn pass(&mut self, now: Timestamp) -> Result<Rest, Problem> {
        match &mut self.source {
            // Boxed: Secrets are large.
            Source::SelfManaged(own) => Box::pin(own.pass(now)).await,
            Source::File(file) => file.pass(now).await,
        }
    }

    fn say_once(&mut self, problem: Option<String>) {
        if let Some(problem) = &problem
            && self.told.as_ref() != Some(problem)
        {
            tracing::warn!("the webhook's certificates: {problem}");
        }
        self.told = problem;
    }
}

fn back_off(failures: u32) -> Duration {
    SOON.saturating_mul(1 << failures.saturating_sub(1).min(4))
}

async fn registrations(of: &Registrations) -> Result<Vec<Registration>, Problem> {
    of.read().await.map_err(about(format!("webhook configuration {}", of.name())))
}

/// Has the API server trust `bundle`.
async fn publish(of: &Registrations, seen: &Registration, bundle: &Bundle) -> Result<Registration, Problem> {
    let written = of.publish(seen, &bundle.to_pem()).await;
    let written = written.map_err(about(format!("{} {}", seen.kind.as_str(), of.name())))?;
    tracing::info!(kind = seen.kind.as_str(), cas = bundle.certificates().len(), "wrote the caBundle");
    Ok(written)
}

/// What rests until something is due, sooner where a registration is missing.
fn resting(until_due: Option<Duration>, registrations: &Registrations, found: usize) -> Rest {
    let after = until_due.unwrap_or(PERIOD).min(PERIOD);
    if found == Kind::ALL.len() {
        return Rest { after, missing: None };
    }
    let name = registrations.name();
    let missing =
        format!("a mutating and a validating configuration called {name} are expected, and {found} found");
    Rest { after: after.min(SOON), missing: Some(missing) }
}
