//! The admission webhook as a process. Everything is in the library.

use std::process::ExitCode;

use clap::Parser;
use webservice_ops::process;
use webservice_webhook::{Config, run};

fn main() -> ExitCode {
    let config = Config::parse();
    process::run(env!("CARGO_BIN_NAME"), &config.log, async |shutdown| run(&config, shutdown).await)
}
