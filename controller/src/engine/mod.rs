//! A small engine for level-triggered controllers, over `kube::runtime::watcher` and tokio.
//!
//! It knows keys, not kinds: what is watched, what a pass does and how keys follow from objects is the
//! caller's.
//!
//! ```text
//!   watch ──► Feeder ──► Store            one slim value per object, read by the passes
//!               │ │
//!               │ └────► OwnWrites        releases keys that wait for their own writes to come back
//!               │            │
//!               ▼            ▼
//!           (your map) ─► WorkQueue ◄───┐ one entry per key, live before initial
//!                            │          │
//!                            ▼          │ requeue after, back off
//!                        WorkerPool ────┘ bounded, deadlines, panics caught
//!                            │
//!                            ▼
//!                     your Reconciler     one worker per key at a time
//! ```
//!
//! The parts and what each promises:
//!
//! - [`queue`]: no key is lost, none is in two hands, what happens during a pass causes exactly one more.
//! - [`backoff`]: failing keys wait ever longer, up to a minute, and are never given up.
//! - [`workers`]: a bounded number of passes, each under a deadline; a panic is a failure like another.
//! - [`store`]: the last seen state of every watched object; a full list replaces it and shows missed
//!   deletions.
//! - [`feeder`]: keeps a watch alive, tells what it needs when it cannot, recovers by itself.
//! - [`pace`]: no server is asked over and over for a watch that it ends at once.
//! - [`retry_after`]: a server that asks for patience gets it.
//! - [`own_writes`]: no pass decides on a state older than what the key itself has written.
//! - [`lease`]: one leader at a time, and none that acts after its time.
//!
//! `kube::runtime::Controller` does most of this too. It is not used because in it pending keys leave in hash
//! order, there is no back-off per key and no reset on success, one panic ends the stream, and the cache holds
//! whole objects.

pub mod backoff;
pub mod feeder;
pub mod lease;
pub mod own_writes;
pub mod pace;
pub mod queue;
pub mod retry_after;
pub mod store;
pub mod workers;

pub use self::backoff::{Backoff, Failure, Retry};
pub use self::feeder::{Feeder, Sink, Watched};
pub use self::lease::{Elector, Fence, FenceLayer};
pub use self::own_writes::{OwnWrites, Written};
pub use self::pace::PaceWatches;
pub use self::queue::{EarlyTry, Priority, QueueMetrics, QueueStats, WorkQueue};
pub use self::retry_after::HeedRetryAfter;
pub use self::store::{Cached, Change, ObjectKey, Scope, Store};
pub use self::workers::{Attempt, End, Outcome, PassObserver, Reconciler, RetryHint, WorkerPool};
