//! The certificate that a running server presents, kept up to date from a mounted directory.
//!
//! The files are read again on a short interval and compared by content. Watching them would see nothing: the kubelet
//! swaps a link above them. A pair that cannot be used never replaces one that can.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::expiry::Validity;
use crate::pair::{Pair, PairError};
use crate::snapshot::{Snapshot, SnapshotError};

/// How often the files are read: short beside the minute that the kubelet takes to update them.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Whether clients can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No usable pair was seen yet: every handshake fails.
    NoPair,
    /// A pair is presented.
    Serving {
        /// The last instant at which clients accept it.
        not_after: Timestamp,
    },
    /// A pair is presented, and every client refuses it.
    Expired {
        /// The last instant at which clients accepted it.
        not_after: Timestamp,
    },
}

/// How often the files were read, for the `certwatcher_*` metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCounts {
    /// All attempts.
    pub total: u64,
    /// Those that gave no usable pair.
    pub errors: u64,
}

/// Why an attempt gave no usable pair.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The files could not be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The files do not hold a pair that can be served.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The pair is over, and the one that is presented is not.
    #[error("failed to replace a valid certificate by one that expired at {not_after}; renew it")]
    Expired {
        /// The end of the refused certificate's life.
        not_after: Timestamp,
    },
}

/// What the reload loop and the server share. Clones are handles to the same.
#[derive(Clone)]
pub struct ServedCertificate(Arc<Shared>);

struct Shared {
    certified_key: ArcSwapOption<CertifiedKey>,
    status: watch::Sender<Status>,
    reads: AtomicU64,
    errors: AtomicU64,
}

impl ServedCertificate {
    fn empty() -> Self {
        Self(Arc::new(Shared {
            certified_key: ArcSwapOption::empty(),
            status: watch::Sender::new(Status::NoPair),
            reads: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }))
    }

    /// One that is presented for ever: for a server without a directory.
    #[must_use]
    pub fn fixed(pair: &Pair) -> Self {
        let served = Self::empty();
        served.0.certified_key.store(Some(Arc::clone(pair.certified_key())));
        served.0.status.send_replace(Status::Serving { not_after: pair.validity().not_after });
        served
    }

    /// The present status.
    #[must_use]
    pub fn status(&self) -> Status {
        *self.0.status.borrow()
    }

    /// A channel that holds the present status and tells of each change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.0.status.subscribe()
    }

    /// The reads so far.
    #[must_use]
    pub fn counts(&self) -> ReadCounts {
        ReadCounts {
            total: self.0.reads.load(Ordering::Relaxed),
            errors: self.0.errors.load(Ordering::Relaxed),
        }
    }
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.certified_key.load_full()
    }
}

impl fmt::Debug for ServedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedCertificate").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Reads the directory and replaces what [`ServedCertificate`] presents.
#[derive(Debug)]
pub struct Reloader {
    directory: PathBuf,
    served: ServedCertificate,
    presented: Option<(Snapshot, Validity)>,
    /// The last problem that was logged: it is said once, not every second.
    problem: Option<String>,
}

impl Reloader {
    /// A reloader of `directory`, which need not exist yet. Nothing is read before the first [`Self::pass`].
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            served: ServedCertificate::empty(),
            presented: None,
            problem: None,
        }
    }

    /// A handle to what is presented.
    #[must_use]
    pub fn served(&self) -> ServedCertificate {
        self.served.clone()
    }

    /// Makes a pass now and then one per `interval`, for ever; dropping the future ends it.
    pub async fn run(mut self, interval: Duration) -> Infallible {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.pass(Timestamp::now()).await;
        }
    }

    /// Reads once, takes a new usable pair up, and publishes the status at `now`.
    pub async fn pass(&mut self, now: Timestamp) {
        self.served.0.reads.fetch_add(1, Ordering::Relaxed);
        let read = Snapshot::read(&self.directory).await.map_err(ReloadError::from);
        match read.and_then(|snapshot| self.take_up(snapshot, now)) {
            Ok(()) => self.problem = None,
            Err(error) => {
                self.served.0.errors.fetch_add(1, Ordering::Relaxed);
                self.say_once(error.to_string());
            }
        }
        self.publish(now);
    }

    fn take_up(&mut self, snapshot: Snapshot, now: Timestamp) -> Result<(), ReloadError> {
        if self.presented.as_ref().is_some_and(|(presented, _)| *presented == snapshot) {
            return Ok(());
        }
        let pair = Pair::from_pem(&snapshot.certificate, &snapshot.key)?;
        let validity = pair.validity();
        if validity.is_over(now)
            && self.presented.as_ref().is_some_and(|(_, presented)| !presented.is_over(now))
        {
            return Err(ReloadError::Expired { not_after: validity.not_after });
        }

        tracing::info!(serial = pair.serial(), not_after = %validity.not_after, "presenting a new certificate");
        self.served.0.certified_key.store(Some(Arc::clone(pair.certified_key())));
        self.presented = Some((snapshot, validity));
        Ok(())
    }

    fn say_once(&mut self, problem: String) {
        if self.problem.as_ref() == Some(&problem) {
            return;
        }
        if self.presented.is_some() {
            tracing::warn!(problem, "keeping the last good certificate");
        } else {
            tracing::warn!(problem, "waiting for a certificate");
        }
        self.problem = Some(problem);
    }

    fn publish(&self, now: Timestamp) {
        let status = status(self.presented.as_ref().map(|(_, validity)| *validity), now);
        let changed =
            self.served.0.status.send_if_modified(|present| std::mem::replace(present, status) != status);
        if let (true, Status::Expired { not_after }) = (changed, status) {
            tracing::error!(%not_after, "the certificate has expired: clients refuse it until it is renewed");
        }
    }
}

/// A certificate that is not valid yet counts as serving: it was issued by a clock that is ahead of ours, and it is the
/// clients' clocks that decide.
fn status(presented: Option<Validity>, now: Timestamp) -> Status {
    match presented {
        None => Status::NoPair,
        Some(validity) if validity.is_over(now) => Status::Expired { not_after: validity.not_after },
        Some(validity) => Status::Serving { not_after: validity.not_after },
    }
}
