//! What ends a command, in a sentence that says what to do where there is something to do.

use std::path::PathBuf;

use webservice_api::constants::{GROUP, PLURAL};
use webservice_controller::engine::ObjectKey;
use webservice_controller::failure::Failure;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to find a kubeconfig: there is no {tried}; name one with --kubeconfig or KUBECONFIG")]
    NoKubeconfig { tried: String },
    #[error("failed to read kubeconfig {}: {reason}", path.display())]
    Kubeconfig { path: PathBuf, reason: String },
    #[error("failed to find context {context:?} in the kubeconfig; it has {known}")]
    NoContext { context: String, known: String },
    #[error("failed to use kubeconfig {used}: {reason}")]
    Context { used: String, reason: String },
    #[error("failed to prepare the connection to {server}: {reason}")]
    Client { server: String, reason: String },
    #[error("failed to reach the API server {server}: {reason}")]
    Unreachable { server: String, reason: String },
    #[error(
        "{server} does not accept the credentials of the kubeconfig (401); log in again, or choose another context"
    )]
    Unauthorized { server: String },
    #[error("{server} has no {PLURAL}.{GROUP}: install the operator's chart, or apply its CRD, first")]
    NoCrd { server: String },
    #[error("WebService {:?} not found in namespace {:?}", key.name(), key.namespace())]
    NotFound { key: ObjectKey },
    #[error(transparent)]
    Request(#[from] Failure),
    #[error("failed to use policy {}: {reason}", path.display())]
    Policy { path: PathBuf, reason: String },
    #[error("failed to release {count} WebServices: nobody has confirmed it; repeat it with --yes")]
    Unconfirmed { count: usize },
    #[error("failed to print the answer: {reason}")]
    Output { reason: String },
}

/// What is at the bottom of an error: of a failed connection the only part that helps.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map_or_else(String::new, ToString::to_string)
}
