//! The controller of the WebService operator, as a process. Everything is in the library.

use std::process::ExitCode;

use clap::Parser;
use webservice_controller::program::Program;
use webservice_ops::process;

fn main() -> ExitCode {
    let program = Program::parse();
    let log = program.log().clone();
    // An error means that a provider is installed already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    process::run(env!("CARGO_BIN_NAME"), &log, async |shutdown| program.run(shutdown).await)
}
