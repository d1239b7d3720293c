//! The frame of a process: its log, its runtime, its signals and its exit code.

use std::error::Error;
use std::process::ExitCode;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::logging::{self, LogArgs};
use crate::shutdown;

/// Starts the log and a runtime, and runs `work` with a token that the first SIGTERM or SIGINT cancels. What goes wrong is
/// one line on standard error, after the name of the program, and exit code 1.
pub fn run<E: Error + 'static>(
    program: &str,
    log: &LogArgs,
    work: impl AsyncFnOnce(CancellationToken) -> Result<(), E>,
) -> ExitCode {
    let result = try_run(log, work);
    logging::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run<E: Error + 'static>(
    log: &LogArgs,
    work: impl AsyncFnOnce(CancellationToken) -> Result<(), E>,
) -> Result<(), Box<dyn Error>> {
    logging::init(log)?;
    Runtime::new()?.block_on(async {
        let shutdown = shutdown::on_signal()?;
        Ok(work(shutdown).await?)
    })
}
