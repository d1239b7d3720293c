//! All metrics of the process, for the reference page.

use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use json_patch::Patch;
use prometheus_client::registry::Registry;
use webservice_api::constants::MUTATE_PATH;
use webservice_api::rules::{Cause, Violation};
use webservice_certs::{Ca, IssueError, Pair, PairError, ServedCertificate, Validity};

use crate::decide::Decision;
use crate::metrics::{CLIENT_CA, Metrics, POLICY};

/// Why there is no certificate to tell of.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// It cannot be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// It cannot be used.
    #[error(transparent)]
    Pair(#[from] PairError),
}

/// The metrics of a process that presents a certificate, reads all files and has decided in every way, so that all families
/// have a member and every label its values.
pub fn registry() -> Result<Registry, ReferenceError> {
    let validity = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
    let leaf = Ca::create(validity)?.issue(&["localhost"], validity)?;
    let pair = Pair::from_pem(leaf.certificate_pem().as_bytes(), leaf.key_pem().as_bytes())?;
    let mut registry = webservice_ops::metrics::registry();
    let metrics = Metrics::register(&mut registry, ServedCertificate::fixed(&pair));
    for file in [POLICY, CLIENT_CA] {
        drop(metrics.file(file));
    }
    let webhook = metrics.webhook(MUTATE_PATH);
    drop(webhook.start());
    webhook.finished(StatusCode::OK);
    let warning = Violation { rule: "", field: String::new(), message: String::new(), cause: Cause::Invalid };
    let (patch, defaulted, warnings) = (Patch::default(), vec![""], vec![warning]);
    webhook.decided(&Decision::Allow { patch, defaulted, warnings });
    webhook.decided(&Decision::Unreadable { reason: String::new() });
    Ok(registry)
}
