//! Ctrl-C and SIGTERM: what was started half-way is taken down before the command ends.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

/// The error of work that was cut short by a signal.
#[derive(Debug)]
struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Does the work unless a signal comes first. Then the work is dropped, and its destructors clean up.
pub(crate) async fn or_interrupt<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        eprintln!("\ninterrupted, removing what was started");
    };
    tokio::select! {
        result = work => result,
        () = interrupted => Err(Interrupted.into()),
    }
}

/// The shell's convention for a command that was ended by SIGINT, else 1.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(if error.is::<Interrupted>() { 130 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_is_not_interrupted_gives_its_result() {
        assert_eq!(or_interrupt(async { Ok(7) }).await.unwrap(), 7);
    }

    #[test]
    fn an_interrupted_command_is_told_from_a_failed_one() {
        assert_eq!(exit_code(&Interrupted.into()), ExitCode::from(130));
        assert_eq!(exit_code(&anyhow::anyhow!("no")), ExitCode::from(1));
    }
}
