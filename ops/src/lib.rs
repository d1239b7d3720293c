//! What the webhook and the controller both have around their work.
//!
//! The two never depend on each other, so what they share stands here: flags of the same form ([`args`]), one frame of a
//! process ([`process`]: [`logging`], runtime, [`shutdown`], exit code), files that may change ([`latest`]), and one HTTP
//! server that nobody can hold up, for reviews, [`probes`] and [`metrics`] alike.
//!
//! ```text
//! listen ─► server ─► connection ─► a router: reviews, probes, metrics
//!                         │
//!                      activity
//! ```

mod activity;
pub mod args;
mod connection;
pub mod latest;
pub mod listen;
mod log_lines;
pub mod logging;
pub mod metrics;
pub mod probes;
pub mod process;
pub mod server;
mod service;
pub mod shutdown;
