//! What is counted of certificates: nothing but of the process that keeps them.

use k8s_openapi::jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use webservice_ops::metrics::register;

use super::plan::State;

/// Which certificate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    Ca,
    Leaf,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByCertificate {
    certificate: &'static str,
}

impl From<Which> for ByCertificate {
    fn from(which: Which) -> Self {
        let certificate = match which {
            Which::Ca => "ca",
            Which::Leaf => "leaf",
        };
        Self { certificate }
    }
}

/// See the [module](self). Cheap to clone.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    expiry: Family<ByCertificate, Gauge>,
    renewals: Family<ByCertificate, Counter>,
    failures: Counter,
}

impl CertificateMetrics {
    /// All of them, registered with `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            expiry: register(
                registry,
                "webservice_certificate_secret_expiry_timestamp_seconds",
                "When the certificate in the Secret expires, in seconds since 1970, by certificate",
                Family::default(),
            ),
            renewals: register(
                registry,
                "webservice_certificate_renewals",
                "Certificates made, the first included, by certificate",
                Family::default(),
            ),
            failures: register(
                registry,
                "webservice_certificate_failures",
                "Times that the webhook's certificates or whom the API server trusts could not be looked after",
                Counter::default(),
            ),
        };
        // Known from the start, so that a rate over them is right from the first one on.
        for which in [Which::Ca, Which::Leaf] {
            drop(metrics.renewals.get_or_create(&which.into()));
        }
        metrics
    }

    /// This is what there is.
    pub(super) fn show(&self, state: &State) {
        if let Ok(ca) = &state.ca {
            self.expires(Which::Ca, ca.validity().not_after);
        }
        if let Ok(leaf) = &state.leaf {
            self.expires(Which::Leaf, leaf.validity.not_after);
        }
    }

    /// All series that there can be, for the reference page.
    pub(crate) fn complete(&self) {
        self.expires(Which::Ca, Timestamp::UNIX_EPOCH);
        self.expires(Which::Leaf, Timestamp::UNIX_EPOCH);
    }

    fn expires(&self, which: Which, at: Timestamp) {
        self.expiry.get_or_create(&which.into()).set(at.as_second());
    }

    /// A certificate was made.
    pub(super) fn renewed(&self, which: Which) {
        self.renewals.get_or_create(&which.into()).inc();
    }

    /// A pass failed.
    pub(super) fn failed(&self) {
        self.failures.inc();
    }
}
