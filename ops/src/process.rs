//! The frame of a process: its log, its runtime, its signals and its exit code.

use std::error::Error;
use std::io;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::logging::{self, LogArgs};
use crate::shutdown;

/// Most threads that work, on however many cores. One answers tens of thousands of reviews a second, and each has memory and
/// caches of its own.
const MAX_WORKERS: usize = 4;

/// Starts the log and a runtime, and runs `work` with a token that the first SIGTERM or SIGINT cancels. What goes wrong is
/// one line on standard error, after the name of the program, and exit code 1.
pub fn run<E: Error + 'static>(
    program: &str,
    log: &LogArgs,
    work: impl AsyncFnOnce(CancellationToken) -> Result<(), E>,
) -> ExitCode {
    let ended = try_run(program, log, work);
    logging::flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run<E: Error + 'static>(
    program: &str,
    log: &LogArgs,
    work: impl AsyncFnOnce(CancellationToken) -> Result<(), E>,
) -> Result<(), Box<dyn Error>> {
    logging::init(program, log)?;
    runtime()?.block_on(async {
        let shutdown = shutdown::on_signal()?;
        Ok(work(shutdown).await?)
    })
}

fn runtime() -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    Builder::new_multi_thread().worker_threads(cores.min(MAX_WORKERS)).enable_all().build()
}
