//! The admission webhook as a process: configuration, log, signals. Everything else is in the library.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use webservice_webhook::{Config, logging, run};

#[tokio::main]
async fn main() -> ExitCode {
    match start(&Config::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("webservice-webhook: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn start(config: &Config) -> Result<(), Box<dyn Error>> {
    logging::init(config)?;
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(Signals::new()?, shutdown.clone()));
    run(config, shutdown).await?;
    Ok(())
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The first signal asks for a graceful stop; whoever sends a second one does not want to wait for it.
async fn cancel_on_signal(mut signals: Signals, shutdown: CancellationToken) {
    signals.next().await;
    shutdown.cancel();
    signals.next().await;
    std::process::exit(1);
}
