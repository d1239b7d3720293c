//! The Lease of a namespace's controllers: who leads, and how long nobody did.
//!
//! Both ends of a time come from the Lease itself, so it does not matter how busy the machine is that looks at it.

use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use serde_json::from_value;

use super::must::Must;
use super::namespace::TestNamespace;

/// As the Lease says: what a leader that fell silent still has.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);

impl TestNamespace {
    /// What the Lease of its controllers says.
    async fn lease(&self) -> LeaseSpec {
        let mut lease = self.leases().get("webservice-controller").await;
        from_value(lease["spec"].take()).must("read the Lease")
    }

    /// When somebody last renewed the Lease, and so led.
    pub async fn last_renewal(&self) -> Timestamp {
        let renewed = self.lease().await.renew_time.ok_or_else(|| anyhow!("nobody has"));
        renewed.must("see who renewed the Lease").0
    }

    /// The time from `start` until the one that leads now began to.
    pub async fn time_to_lead(&self, start: Timestamp) -> Duration {
        let acquired = self.lease().await.acquire_time.ok_or_else(|| anyhow!("nobody has"));
        acquired
            .must("see who acquired the Lease")
            .0
            .duration_since(start)
            .try_into()
            .must("see it acquired later")
    }
}
