//! What the webhook and the controller both have around their work.
//!
//! The two never depend on each other, so what they share stands here: flags of the same form, a log of the same form,
//! addresses that are bound in the same way, probes, the metrics endpoint, and signals.

pub mod args;
pub mod listen;
pub mod logging;
pub mod metrics;
pub mod probes;
pub mod shutdown;
