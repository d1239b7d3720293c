//! Leader election by client-go's Lease protocol, with warm standby, a watch, and a fence.
//!
//! The candidates share one `coordination.k8s.io/v1` Lease. The holder renews it; whoever has seen it
//! unchanged for its duration may write itself in. All writes carry the version that was seen, so of two only
//! one succeeds. It interoperates with client-go and differs in what the protocol leaves open:
//!
//! - The Lease is watched: a release is followed within milliseconds, and a holder that was written out of
//!   its Lease knows.
//! - A holder renews every 5 s while all is well, every 2 s while not.
//! - Somebody who deletes the Lease does not end the holder's term, for those who had seen it.
//!
//! # What is promised
//!
//! *No request of a holder begins after another's acquisition, and none that has begun is still waited for.*
//! A term counts from the moment at which its last successful renewal was **sent**, and ends `renew_deadline`
//! (10 s) later. Others count from the moment at which they **saw** that renewal, which is later, and wait
//! `lease_duration` (15 s). No time of one process is compared with that of another, so clocks may be hours
//! apart; they must only run at similar speed (within 10 : 15). Time is `CLOCK_BOOTTIME`, which goes on while
//! a machine sleeps.
//!
//! [`Fence`] puts this into force: its end is checked before each step of each request, and requests last at
//! most [`LONGEST_REQUEST`]. What no client can promise is what the network does with a request that left in
//! time; so updates and deletions must carry uid and resourceVersion.
//!
//! # How to use it
//!
//! [`Elector::acquire`] as a warm standby, [`Elector::hold`] while working, [`Elector::release`] after the
//! last worker has stopped. A process that lost its lease exits: its caches may be fine, but a restart is the
//! state that is tested daily.

mod election;
mod fence;
mod kube;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use self::election::{Election, Lost, Settings, Step};
pub use self::fence::{Fence, FenceLayer, Fenced, FencedFuture, FencedService, LONGEST_REQUEST};
pub use self::kube::KubeLease;

/// Where time comes from: it never goes back and has no meaning outside the process.
pub trait Clock: Send + Sync {
    /// The time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The time since the machine was started, sleep included (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
    }
}

/// Why a request about the Lease was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The Lease is not what it was when we saw it.
    #[error("the lease has changed")]
    Refused,
    /// Anything else; it may have been carried out nevertheless.
    #[error("{0}")]
    Failed(String),
}

/// The Lease of an election.
pub trait LeaseApi: Send + Sync {
    /// Reads it.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, LeaseError>> + Send;
    /// Creates it.
    fn create(&self, lease: &Lease) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
    /// Replaces it, if it still has the version of `lease`.
    fn replace(&self, lease: &Lease) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
    /// Its state now and whenever it changes, `None` while it does not exist. Never ends; survives errors by
    /// itself.
    fn changes(&self) -> impl Stream<Item = Option<Lease>> + Send + 'static;
}

/// What a process is in the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for its turn; who leads, if known.
    Standby {
        /// The identity in the Lease.
        holder: Option<String>,
    },
    /// Holds the Lease.
    Leader,
    /// Held it, or gave up waiting for it.
    Retired,
}

/// A name that no other process has: the host's, for people, and a random part.
#[must_use]
pub fn unique_identity(host: &str) -> String {
    format!("{host}_{:016x}", fastrand::u64(..))
}

/// The process's part in an election; see the [module](self).
pub struct Elector<A> {
    api: A,
    changes: BoxStream<'static, Option<Lease>>,
    election: Election,
    longest_request: Duration,
    clock: Arc<dyn Clock>,
    fence: Fence,
    role: watch::Sender<Role>,
}

impl<A: LeaseApi> Elector<A> {
    /// A candidate. Its fence is closed.
    #[must_use]
    pub fn new(settings: Settings, api: A, clock: Arc<dyn Clock>) -> Self {
        Self {
            changes: api.changes().boxed(),
            api,
            // So that a renewal which hangs leaves time for others before the term ends.
            longest_request: settings.renew_deadline / 4,
            election: Election::new(settings),
            fence: Fence::new(Arc::clone(&clock)),
            clock,
            role: watch::Sender::new(Role::Standby { holder: None }),
        }
    }

    /// The fence that this elector opens and closes.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// The role of this process, now and as it changes.
    #[must_use]
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// Waits, as long as it takes, until the Lease is ours. False if `stop` was cancelled first.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let stop = stop.clone();
        let acquired = stop.run_until_cancelled(async {
            while self.election.term_ends().is_none() {
                self.advance().await;
            }
        });
        acquired.await.is_some()
    }

    /// Renews the Lease until it is lost, or until `stop` is cancelled; to be cancelled after the last worker
    /// has stopped. The fence is closed when it is lost.
    pub async fn hold(&mut self, stop: &CancellationToken) -> Result<(), Lost> {
        let stop = stop.clone();
        let lost = stop.run_until_cancelled(async {
            loop {
                if let Some(lost) = self.advance().await {
                    return lost;
                }
            }
        });
        match lost.await {
            None => Ok(()),
            Some(lost) => Err(lost),
        }
    }

    /// Closes the fence and gives the Lease up, so that a standby takes over at once. If that fails, the
    /// standby waits until the Lease expires, as after a crash.
    pub async fn release(&mut self) {
        self.retire();
        if self.election.is_uncertain() {
            self.look().await;
        }
        if self.election.is_uncertain() {
            return tracing::warn!("failed to release the lease, it will expire");
        }
        let Some(lease) = self.election.release(Timestamp::now()) else {
            return;
        };
        match patiently(self.patience(), self.api.replace(&lease)).await {
            Ok(_) => tracing::info!("released the lease"),
            Err(error) => tracing::warn!("failed to release the lease, it will expire: {error}"),
        }
    }

    /// Takes the next step of the election. Gives the reason if that ends the term.
    async fn advance(&mut self) -> Option<Lost> {
        match self.election.decide(self.clock.now(), Timestamp::now()) {
            Step::Look => self.look().await,
            Step::Create(lease) => {
                let sent = self.send();
                let answer = patiently(self.patience(), self.api.create(&lease)).await;
                self.answered(answer, sent);
            }
            Step::Replace(lease) => {
                let sent = self.send();
                let answer = patiently(self.patience(), self.api.replace(&lease)).await;
                self.answered(answer, sent);
            }
            Step::WaitUntil(until) => self.wait_until(until).await,
            Step::Lost(lost) => {
                self.retire();
                return Some(lost);
            }
        }
        self.show_role();
        None
    }

    async fn look(&mut self) {
        match patiently(self.patience(), self.api.get()).await {
            Ok(lease) => self.election.saw(lease, self.clock.now()),
            Err(error) => self.fail(&error),
        }
    }

    /// The time that a request may take: no longer than what is left of a term.
    fn patience(&self) -> Duration {
        match self.election.term_ends().map(|ends| ends.saturating_sub(self.clock.now())) {
            Some(left) if !left.is_zero() => left.min(self.longest_request),
            _ => self.longest_request,
        }
    }

    /// The time that a request which is sent now counts from.
    fn send(&mut self) -> Duration {
        self.election.sending();
        self.clock.now()
    }

    fn answered(&mut self, answer: Result<Lease, LeaseError>, sent: Duration) {
        match answer {
            Ok(lease) => {
                self.election.wrote(lease, sent);
                if let Some(ends) = self.election.term_ends() {
                    self.fence.open_until(ends);
                }
            }
            Err(LeaseError::Refused) => self.election.refused(self.clock.now()),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &LeaseError) {
        tracing::warn!("failed to read or write the lease, trying again: {error}");
        self.election.failed(self.clock.now(), fastrand::f64());
    }

    /// Waits for the time or for a change of the Lease.
    async fn wait_until(&mut self, until: Duration) {
        let left = until.saturating_sub(self.clock.now());
        tokio::select! {
            () = sleep(left) => {}
            Some(lease) = self.changes.next() => self.election.saw(lease, self.clock.now()),
        }
    }

    fn show_role(&self) {
        let role = match self.election.term_ends() {
            Some(_) => Role::Leader,
            None => Role::Standby { holder: self.election.holder().map(ToOwned::to_owned) },
        };
        self.role.send_if_modified(|before| {
            let is_new = *before != role;
            *before = role;
            is_new
        });
    }

    fn retire(&self) {
        self.fence.close();
        self.role.send_replace(Role::Retired);
    }
}

async fn patiently<T>(
    patience: Duration,
    request: impl Future<Output = Result<T, LeaseError>>,
) -> Result<T, LeaseError> {
    let no_answer = || LeaseError::Failed("no answer in time".to_owned());
    timeout(patience, request).await.unwrap_or_else(|_| Err(no_answer()))
}

impl<A> fmt::Debug for Elector<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("election", &self.election)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}
