//! The shipped controller, but a pass over a WebService whose name begins with `panics` does: the hook of the tests that
//! shows that one such object stands in nobody's way.

use std::process::ExitCode;

use clap::Parser;
use webservice_controller::config::Config;
use webservice_controller::engine::{Attempt, ObjectKey, Outcome, Reconciler};
use webservice_controller::failure::Failure;
use webservice_controller::reconcile::Context;
use webservice_controller::run::run_as;
use webservice_ops::process;

struct Poisoned(Context);

impl Reconciler for Poisoned {
    type Key = ObjectKey;
    type Error = Failure;

    async fn reconcile(&self, key: &ObjectKey, attempt: &Attempt) -> Result<Outcome, Failure> {
        assert!(!key.name().starts_with("panics"), "poisoned on purpose");
        self.0.reconcile(key, attempt).await
    }
}

fn main() -> ExitCode {
    let config = Config::parse();
    let log = config.log.clone();
    // An error means that a provider is installed already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    process::run(env!("CARGO_BIN_NAME"), &log, async |shutdown| run_as(config, shutdown, Poisoned).await)
}
