//! `/livez` and `/readyz`, written as the API server's own: named checks, listed with `?verbose` or on failure.

use std::fmt::Write;

use tokio_util::sync::CancellationToken;
use webservice_certs::{ServedCertificate, Status};

/// What readiness depends on.
#[derive(Debug, Clone)]
pub(crate) struct Readiness {
    pub(crate) certificate: ServedCertificate,
    /// Cancelled when the process was told to stop.
    pub(crate) stopping: CancellationToken,
}

impl Readiness {
    /// Every check by name, and what is wrong where it fails.
    pub(crate) fn checks(&self) -> [Check; 2] {
        [certificate(self.certificate.status()), not_draining(self.stopping.is_cancelled())]
    }
}

/// One named check: `Err` says what is wrong.
pub(crate) type Check = (&'static str, Result<(), String>);

fn certificate(status: Status) -> Check {
    let outcome = match status {
        Status::Serving { .. } => Ok(()),
        Status::NoPair => Err("there is no usable certificate yet".to_owned()),
        Status::Expired { not_after } => Err(format!("the certificate expired at {not_after}")),
    };
    ("certificate", outcome)
}

fn not_draining(draining: bool) -> Check {
    ("not-draining", if draining { Err("the process is shutting down".to_owned()) } else { Ok(()) })
}

/// Whether all checks pass, and the text that says so.
pub(crate) fn report(name: &str, checks: &[Check], verbose: bool) -> (bool, String) {
    let passed = checks.iter().all(|(_, outcome)| outcome.is_ok());
    if passed && !verbose {
        return (true, "ok".to_owned());
    }
    let mut text = String::new();
    for (check, outcome) in checks {
        // Writing to a string cannot fail.
        let _ = match outcome {
            Ok(()) => writeln!(text, "[+]{check} ok"),
            Err(reason) => writeln!(text, "[-]{check} failed: {reason}"),
        };
    }
    let _ = writeln!(text, "{name} check {}", if passed { "passed" } else { "failed" });
    (passed, text)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn success_is_one_word_unless_more_is_asked_for() {
        let checks = [not_draining(false)];
        assert_eq!(report("readyz", &checks, false), (true, "ok".to_owned()));
        assert_eq!(
            report("readyz", &checks, true),
            (true, "[+]not-draining ok\nreadyz check passed\n".to_owned())
        );
    }

    #[test]
    fn a_failure_lists_every_check() {
        let checks = [certificate(Status::NoPair), not_draining(false)];
        let text = "[-]certificate failed: there is no usable certificate yet\n[+]not-draining ok\nreadyz check failed\n";
        assert_eq!(report("readyz", &checks, false), (false, text.to_owned()));
    }

    #[test]
    fn only_a_certificate_that_clients_accept_is_ready() {
        let not_after = Timestamp::constant(1_800_000_000, 0);
        assert!(certificate(Status::Serving { not_after }).1.is_ok());
        assert!(certificate(Status::Expired { not_after }).1.unwrap_err().contains("2027-01-15T08:00:00Z"));
        assert!(certificate(Status::NoPair).1.is_err());
    }
}
