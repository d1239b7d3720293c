//! From signals to a [`CancellationToken`]: the first one asks, the second one insists.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after a second signal: 128 + 15, what a shell shows for a process that SIGTERM ended.
pub const FORCED_EXIT_CODE: i32 = 143;

/// A token that is cancelled by the first SIGTERM or SIGINT. A second one ends the process at once with
/// [`FORCED_EXIT_CODE`]. To be called once, inside a tokio runtime.
///
/// # Errors
/// The handlers cannot be installed.
pub fn on_signal() -> io::Result<CancellationToken> {
    let mut signals =
        Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let name = signals.next().await;
        tracing::info!("{name} received: stopping; a second signal stops at once");
        cancelled.cancel();
        let name = signals.next().await;
        tracing::warn!("{name} received again: stopping at once");
        crate::logging::flush();
        std::process::exit(FORCED_EXIT_CODE);
    });
    Ok(token)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;
    use std::{env, future};

    use rustix::process::{Signal, getpid, kill_process};
    use tokio::process::Command;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_first_signal_asks_to_stop() {
        let token = on_signal().unwrap();
        assert!(!token.is_cancelled());
        kill_process(getpid(), Signal::TERM).unwrap();
        timeout(Duration::from_secs(10), token.cancelled()).await.expect("the signal was not noticed");
    }

    /// Runs itself again in a process of its own, the victim.
    #[tokio::test]
    async fn the_second_signal_ends_the_process_at_once() {
        const VICTIM: &str = "SHUTDOWN_TEST_VICTIM";
        if env::var_os(VICTIM).is_some() {
            let token = on_signal().unwrap();
            kill_process(getpid(), Signal::INT).unwrap();
            token.cancelled().await;
            kill_process(getpid(), Signal::TERM).unwrap();
            return future::pending().await;
        }
        let itself = "shutdown::tests::the_second_signal_ends_the_process_at_once";
        let victim = Command::new(env::current_exe().unwrap())
            .args(["--exact", itself])
            .env(VICTIM, "yes")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .status();
        let status = timeout(Duration::from_secs(30), victim).await.expect("the process lives on").unwrap();
        assert_eq!(status.code(), Some(FORCED_EXIT_CODE));
    }
}
