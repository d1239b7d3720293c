//! Certificates of the webhook: who makes them ([`Ca`], [`Leaf`]), when they are renewed ([`expiry::decide`]), whom the
//! API server trusts meanwhile ([`Bundle`]), and how a running server takes a new one up ([`Reloader`]).
//!
//! Everything but the reload loop is pure: time is passed in, bytes come in and go out.

mod bundle;
mod ca;
mod client;
pub mod expiry;
mod leaf;
mod pair;
mod reload;
mod server;
mod snapshot;
mod x509;

pub use bundle::{Bundle, MAX_CAS, Untrusted};
pub use ca::{COMMON_NAME, Ca, IssueError};
pub use client::{ClientAuthorities, ClientCaError, names};
pub use expiry::Validity;
pub use leaf::Leaf;
pub use pair::{Pair, PairError};
pub use reload::{
    DEFAULT_INTERVAL, ReadCounts, ReloadError, Reloader, SelfSignedError, ServedCertificate, Status,
};
pub use server::server_config;
pub use snapshot::{CERTIFICATE_FILE, KEY_FILE, Snapshot, SnapshotError};
pub use x509::ParseError;
