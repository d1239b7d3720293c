//! Proofs: claims about the shipped programs that take many repetitions or long waits to believe.
//!
//! A proof is a test that counts what it tried and what failed, and prints both as a table ([`Findings`]). `cargo xtask
//! test` runs each in a short form; `cargo xtask prove` sets `WEBSERVICE_PROVE` and runs it at its [`full`] size. What
//! calls the webhook here behaves as the API server does ([`Connection`], [`Service`]), and what is called is the shipped
//! binary ([`Replica`]).

#![expect(
    clippy::missing_panics_doc,
    reason = "a proof fails as tests do, by a panic that says what was expected"
)]

mod burst;
mod caller;
mod findings;
mod load;
mod replica;
mod service;
mod storm;

pub use self::burst::{burst, passed_in_time};
pub use self::caller::{CALL_TIMEOUT, Connection, Trust};
pub use self::findings::Findings;
pub use self::load::{Load, Tally};
pub use self::replica::{Mount, Replica};
pub use self::service::Service;
pub use self::storm::Storm;

/// The second value where a proof is asked for in full, the first one otherwise.
#[must_use]
pub fn full<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}

/// Whether a proof is asked for in full.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("WEBSERVICE_PROVE").is_some()
}
