//! The admission webhook of the WebService operator.
//!
//! A review comes in over HTTPS, is decoded into a few borrowed fields ([`review`]), decided upon by pure functions
//! ([`decide`], which asks `webservice-api`), and the answer is written ([`answer`]). Around it: a server that nobody can
//! hold up (of `webservice-ops`, as are log, probes and the metrics endpoint), a certificate that may change at any time,
//! and a stop that loses no request.
//!
//! ```text
//! ops::server ─► routes ─► handlers ─► review ─► decide ─► answer
//!      │                      │                │      │         │
//! tls ─► certs, clients   deadline, body,     json  terms:    audit,
//!                       line, refusal, metrics      policy    warnings
//! ```

pub mod answer;
mod audit;
mod body;
mod clients;
pub mod config;
mod deadline;
pub mod decide;
mod handlers;
#[cfg(feature = "test-hooks")]
pub mod hooks;
pub mod json;
mod line;
mod metrics;
mod readiness;
pub mod reference;
mod refusal;
pub mod review;
mod routes;
mod stop;
pub mod terms;
mod tls;
mod warnings;
mod webhook;

pub use config::Config;
pub use webhook::{Addresses, StartError, Webhook};

use tokio_util::sync::CancellationToken;

/// Starts the webhook and serves until `shutdown` is cancelled, then stops gracefully.
pub async fn run(config: &Config, shutdown: CancellationToken) -> Result<(), StartError> {
    Webhook::bind(config).await?.serve(shutdown).await;
    Ok(())
}
