//! What the webhook and the controller both have around their work.
//!
//! The two never depend on each other, so what they share stands here: flags of the same form ([`args`]), one frame of a
//! process ([`process`]: [`logging`], runtime, [`shutdown`], exit code), files that may change ([`latest`]), and one HTTP
//! server that nobody can hold up, for reviews, [`probes`], [`metrics`] (if need be behind [`auth`]) and [`debug`] alike.
//!
//! ```text
//! listen ─► server ─► connection ─► a router: reviews, probes, metrics, debug
//!                         │
//!                      activity
//! ```

mod activity;
pub mod args;
pub mod auth;
mod connection;
pub mod debug;
pub mod latest;
pub mod listen;
mod log_lines;
pub mod logging;
pub mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
pub mod probes;
pub mod process;
pub mod server;
mod service;
pub mod shutdown;
