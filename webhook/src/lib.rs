//! The admission webhook of the WebService operator.
//!
//! A review comes in over HTTPS, is decoded into a few borrowed fields ([`review`]), decided upon by pure functions
//! ([`decide`], which asks `webservice-api`), and the answer is written ([`answer`]). Around it: a server that nobody can
//! hold up, a certificate that may change at any time, probes and metrics, and a stop that loses no request.
//!
//! ```text
//! listen ─► server ─► connection ─► routes ─► handlers ─► review ─► decide ─► answer
//!             │           │                      │
//!           certs      activity           body, refusal, metrics
//! ```

mod activity;
pub mod answer;
mod body;
pub mod config;
mod connection;
pub mod decide;
mod handlers;
mod listen;
pub mod logging;
mod metrics;
mod probes;
mod refusal;
pub mod review;
mod routes;
mod server;
mod stop;
mod warnings;
mod webhook;

pub use config::{Config, LogFormat};
pub use listen::BindError;
pub use webhook::{Addresses, StartError, Webhook};

use tokio_util::sync::CancellationToken;

/// Starts the webhook and serves until `shutdown` is cancelled, then stops gracefully.
pub async fn run(config: &Config, shutdown: CancellationToken) -> Result<(), StartError> {
    Webhook::bind(config).await?.serve(shutdown).await;
    Ok(())
}
