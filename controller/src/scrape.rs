//! How the metrics travel and who may read them: as with controller-runtime, over plain HTTP for everybody unless something
//! else is asked for.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::metrics::counter::Counter;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_api::rbac::METRICS_URL;
use webservice_certs::{
    Ca, DEFAULT_INTERVAL, IssueError, Pair, PairError, Reloader, ServedCertificate, Validity,
};
use webservice_ops::auth::{Reviewer, Verdict, protect};
use webservice_ops::server::Transport;

use crate::failure::with_sources;

/// Whoever reads over a self-signed certificate does not verify it, and nobody renews it: it outlives the process.
const SELF_SIGNED_LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// What gives somebody the right to read.
const REMEDY: &str =
    "bind the account to a ClusterRole with nonResourceURLs [\"/metrics\"] and verbs [\"get\"]";

/// Why the metrics cannot be served over TLS.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up TLS for the metrics: {0}")]
pub enum TlsError {
    /// No certificate can be made.
    Issue(#[from] IssueError),
    /// The certificate that was made cannot be used.
    Pair(#[from] PairError),
    /// The TLS library refuses.
    Rustls(#[from] rustls::Error),
}

/// TLS with the pair in `directory`, which is read again and again until `stop` is cancelled.
///
/// # Errors
/// The TLS library refuses. A pair that is missing is waited for.
pub async fn tls_from(
    directory: &Path,
    errors: Counter,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<Transport, TlsError> {
    let mut reloader = Reloader::new(directory);
    reloader.pass(Timestamp::now()).await;
    let served = reloader.served();
    tasks.spawn(stop.clone().run_until_cancelled_owned(reloader.run(DEFAULT_INTERVAL)));
    Ok(Transport::Tls { acceptor: acceptor(served)?, errors })
}

/// TLS with a certificate that is made now and kept in memory: it hides the tokens, and proves nothing.
///
/// # Errors
/// The certificate cannot be made.
pub fn self_signed_tls(errors: Counter) -> Result<Transport, TlsError> {
    let validity = Validity::lasting(SELF_SIGNED_LIFE, Timestamp::now());
    let leaf = Ca::create(validity)?.issue(&["localhost"], validity)?;
    let pair = Pair::from_pem(leaf.certificate_pem().as_bytes(), leaf.key_pem().as_bytes())?;
    Ok(Transport::Tls { acceptor: acceptor(ServedCertificate::fixed(&pair))?, errors })
}

fn acceptor(certificate: ServedCertificate) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificate));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed connection would outlive its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// `metrics` for those only whom the API server knows and lets read.
pub fn behind_rbac(metrics: Router, client: Client) -> Router {
    protect(metrics, KubeReviewer { client }, REMEDY)
}

/// Asks the API server. Needs the rights of [`webservice_api::rbac::metrics_auth`].
struct KubeReviewer {
    client: Client,
}

impl Reviewer for KubeReviewer {
    async fn review(&self, token: &str) -> Result<Verdict, String> {
        let answers = async {
            let Some(user) = self.owner(token).await? else { return Ok(Verdict::Unknown) };
            let name = user.username.clone().unwrap_or_default();
            Ok(if self.may_read(user).await? { Verdict::Allowed } else { Verdict::Forbidden(name) })
        };
        answers.await.map_err(|error: kube::Error| with_sources(&error))
    }
}

impl KubeReviewer {
    async fn owner(&self, token: &str) -> kube::Result<Option<UserInfo>> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let known = answer.status.filter(|status| status.authenticated == Some(true));
        Ok(known.and_then(|status| status.user))
    }

    async fn may_read(&self, user: UserInfo) -> kube::Result<bool> {
        let read = NonResourceAttributes { path: Some(METRICS_URL.into()), verb: Some("get".into()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(read),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
