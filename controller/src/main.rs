//! The controller of the WebService operator, as a process. Everything is in the library.

use std::process::ExitCode;

use clap::Parser;
use webservice_controller::config::Config;
use webservice_controller::run::run;
use webservice_ops::process;

fn main() -> ExitCode {
    let config = Config::parse();
    let log = config.log.clone();
    // An error means that a provider is installed already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    process::run(env!("CARGO_BIN_NAME"), &log, async |shutdown| run(config, shutdown).await)
}
