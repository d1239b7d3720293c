//! Who may write: one of several replicas at a time, or a process that runs alone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use webservice_api::constants::FIELD_MANAGER;

use crate::engine::lease::{BootClock, Elector, Fence, KubeLease, Lost, Role, Settings, unique_identity};

/// Name of the Lease, and of the election in metrics.
pub const LEASE: &str = FIELD_MANAGER;

/// This process's part in the election, if there is one.
pub struct Leadership {
    elector: Option<Elector<KubeLease>>,
    standing: Standing,
}

impl Leadership {
    /// For a process that runs alone: it leads from the start.
    #[must_use]
    pub fn unopposed() -> Self {
        Self { elector: None, standing: Standing::unopposed() }
    }

    /// A candidate for the Lease in `namespace`.
    #[must_use]
    pub fn candidate(client: Client, namespace: &str, host: &str) -> Self {
        let lease = KubeLease::new(client, namespace, LEASE);
        let identity = unique_identity(host);
        let elector = Elector::new(Settings::new(LEASE, identity.clone()), lease, Arc::new(BootClock));
        let standing = Standing {
            identity: Some(identity),
            role: elector.role(),
            fence: elector.fence(),
            leads_since: Arc::default(),
        };
        Self { elector: Some(elector), standing }
    }

    /// What can be told of it.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing.clone()
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
        // A process leads once in its life.
        let _ = self.standing.leads_since.set(Instant::now());
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

/// What can be told of a process's part in the election. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The name of the process in the election; none where there is no election.
    pub identity: Option<String>,
    role: watch::Receiver<Role>,
    fence: Fence,
    leads_since: Arc<OnceLock<Instant>>,
}

impl Standing {
    /// That of a process that runs alone.
    #[must_use]
    pub fn unopposed() -> Self {
        Self {
            identity: None,
            role: watch::channel(Role::Leader).1,
            fence: Fence::always_open(Arc::new(BootClock)),
            leads_since: Arc::new(OnceLock::from(Instant::now())),
        }
    }

    /// What no request of a leader may pass.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// The role now.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role.borrow().clone()
    }

    /// How long the process has been leading.
    #[must_use]
    pub fn leading_for(&self) -> Option<Duration> {
        let leads = self.role() == Role::Leader;
        self.leads_since.get().filter(|_| leads).map(Instant::elapsed)
    }

    /// The time until the fence closes, unless the lease is renewed; none where there is no election or no lead.
    #[must_use]
    pub fn fence_closes_in(&self) -> Option<Duration> {
        self.identity.as_ref().and_then(|_| self.fence.budget(Duration::MAX).ok())
    }
}
