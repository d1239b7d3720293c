//! Who may write: one of several replicas at a time, or a process that runs alone.

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use webservice_api::constants::FIELD_MANAGER;
use webservice_ops::probes::Check;

use crate::engine::lease::{BootClock, Elector, Fence, KubeLease, Lost, Role, Settings, unique_identity};

/// Name of the Lease, and of the election in metrics.
pub const LEASE: &str = FIELD_MANAGER;

/// This process's part in the election, if there is one.
pub struct Leadership {
    elector: Option<Elector<KubeLease>>,
    fence: Fence,
    role: watch::Receiver<Role>,
}

impl Leadership {
    /// For a process that runs alone: it leads from the start.
    #[must_use]
    pub fn unopposed() -> Self {
        let (_, role) = watch::channel(Role::Leader);
        Self { elector: None, fence: Fence::always_open(Arc::new(BootClock)), role }
    }

    /// A candidate for the Lease in `namespace`.
    #[must_use]
    pub fn candidate(client: Client, namespace: &str, host: &str) -> Self {
        let lease = KubeLease::new(client, namespace, LEASE);
        let elector = Elector::new(Settings::new(LEASE, unique_identity(host)), lease, Arc::new(BootClock));
        Self { fence: elector.fence(), role: elector.role(), elector: Some(elector) }
    }

    /// What no request of a leader may pass.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// The role, now and as it changes.
    #[must_use]
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    /// Holds while the process leads or waits for its turn.
    #[must_use]
    pub fn check(&self) -> Check {
        let role = self.role();
        Check::new("leader-election", move || match *role.borrow() {
            Role::Retired => Err("the lease was lost; the process is about to end".to_owned()),
            Role::Leader | Role::Standby { .. } => Ok(()),
        })
    }

    /// Waits for the lead, works while it lasts, and gives it up. `work` gets the token that ends it.
    ///
    /// # Errors
    /// The lead was lost while the work went on.
    pub async fn lead<W: Future<Output = ()>>(
        mut self,
        shutdown: &CancellationToken,
        work: impl FnOnce(CancellationToken) -> W,
    ) -> Result<(), Lost> {
        let Some(elector) = &mut self.elector else {
            work(shutdown.clone()).await;
            return Ok(());
        };
        if !elector.acquire(shutdown).await {
            // A write of ours may be on its way, and would hold the lead for nobody.
            elector.release().await;
            return Ok(());
        }
        tracing::info!(lease = LEASE, "leading");
        let stop = shutdown.child_token();
        let worked = CancellationToken::new();
        let working = async {
            work(stop.clone()).await;
            worked.cancel();
        };
        let holding = async {
            let held = elector.hold(&worked).await;
            stop.cancel();
            held
        };
        let ((), held) = tokio::join!(working, holding);
        // What is lost already is no longer ours to give up.
        if held.is_ok() {
            elector.release().await;
        }
        held
    }
}
