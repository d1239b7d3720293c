//! `kubectl webservice`, as a process.

use std::process::ExitCode;

use clap::Parser;
use kubectl_webservice::{Args, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    run(args).await
}
