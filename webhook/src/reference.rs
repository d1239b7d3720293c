//! All metrics of the process, for the reference page.

use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use json_patch::Patch;
use prometheus_client::registry::Registry;
use webservice_api::constants::MUTATE_PATH;
use webservice_api::rules::{Cause, Violation};
use webservice_certs::{SelfSignedError, ServedCertificate, Validity};

use crate::decide::Decision;
use crate::metrics::{CLIENT_CA, Metrics, POLICY};

/// The metrics of a process that presents a certificate, reads all files and has decided in every way, so that all families
/// have a member and every label its values.
///
/// # Errors
/// There is no certificate to tell of.
pub fn registry() -> Result<Registry, SelfSignedError> {
    let validity = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
    let certificate = ServedCertificate::self_signed(&["localhost"], validity)?;
    let mut registry = webservice_ops::metrics::registry();
    let metrics = Metrics::register(&mut registry, certificate);
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
