//! The controller of the WebService operator, as a process.

use std::process::ExitCode;

use clap::Parser;
use webservice_controller::config::Config;
use webservice_controller::run::run;
use webservice_ops::{logging, shutdown};

fn main() -> ExitCode {
    let config = Config::parse();
    match start(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("webservice-controller: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(config: Config) -> Result<(), Box<dyn std::error::Error>> {
    logging::init(&config.log)?;
    // An error means that a provider is installed already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Runtime::new()?.block_on(async {
        let shutdown = shutdown::on_signal()?;
        Ok(run(config, shutdown).await?)
    })
}
