//! When the webhook should be sent reviews.

use tokio_util::sync::CancellationToken;
use webservice_certs::{ServedCertificate, Status};
use webservice_ops::latest::Latest;
use webservice_ops::probes::Check;

/// What must hold of certificate and stop; `stopping` is cancelled when the process was told to stop.
pub(crate) fn checks(certificate: ServedCertificate, stopping: CancellationToken) -> Vec<Check> {
    let not_draining =
        move || if stopping.is_cancelled() { Err("the process is shutting down".to_owned()) } else { Ok(()) };
    vec![
        Check::new("certificate", move || is_usable(certificate.status())),
        Check::new("not-draining", not_draining),
    ]
}

/// There is a usable value of a file that was asked for. A later one that cannot be used ends nobody's readiness: the last
/// good one stays.
pub(crate) fn was_read<T: Send + Sync + 'static>(name: &'static str, latest: Latest<T>) -> Check {
    Check::new(name, move || latest.check())
}

fn is_usable(certificate: Status) -> Result<(), String> {
    match certificate {
        Status::Serving { .. } => Ok(()),
        Status::NoPair => Err("there is no usable certificate yet".to_owned()),
        Status::Expired { not_after } => Err(format!("the certificate expired at {not_after}")),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn only_a_certificate_that_clients_accept_is_ready() {
        let not_after = Timestamp::constant(1_800_000_000, 0);
        assert_eq!(is_usable(Status::Serving { not_after }), Ok(()));
        assert!(is_usable(Status::Expired { not_after }).unwrap_err().contains("2027-01-15T08:00:00Z"));
        assert!(is_usable(Status::NoPair).is_err());
    }
}
