//! Commands that a person types, run to their end.

use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::eventually::DEADLINE;
use super::must::Must;

/// One of our binaries, of the same build as the running program.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let this = std::env::current_exe().must("find the running program");
    let directory = this.parent().unwrap_or(Path::new("."));
    // Of a test: target/debug/deps/suite-… → target/debug
    let directory = if directory.ends_with("deps") { directory.with_file_name("") } else { directory.into() };
    let path = directory.join(name);
    assert!(path.exists(), "{} is missing: run `cargo build --workspace --bins`", path.display());
    path
}

/// A command that runs when it is awaited.
pub struct Tool {
    command: Command,
    input: String,
    deadline: Duration,
}

impl Tool {
    /// The command. It is killed where it does not end in time.
    #[must_use]
    pub fn new(command: impl Into<Command>) -> Self {
        Self { command: command.into(), input: String::new(), deadline: DEADLINE }
    }

    /// One of our binaries, such as `kubectl-webservice`.
    #[must_use]
    pub fn binary(name: &str) -> Self {
        Self::new(Command::new(binary(name)))
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Gives it this on standard input.
    #[must_use]
    pub fn input(mut self, text: &str) -> Self {
        text.clone_into(&mut self.input);
        self
    }

    /// Lets it take longer, or less long, than [`DEADLINE`].
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    async fn run(mut self) -> Output {
        let what = format!("{:?}", self.command.as_std());
        let command = self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().must(&format!("start {what}"));
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command that reads nothing may have ended already.
                _ = stdin.write_all(self.input.as_bytes()).await;
            }
        };
        let run = timeout(self.deadline, async { tokio::join!(feed, child.wait_with_output()).1 });
        let output = run.await.must(&format!("see the end of {what}")).must(&format!("run {what}"));
        Output {
            command: what,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }
}

impl IntoFuture for Tool {
    type Output = Output;
    type IntoFuture = Pin<Box<dyn Future<Output = Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Output {
    command: String,
    /// What it printed.
    pub stdout: String,
    /// What it said beside it.
    pub stderr: String,
    /// None where a signal ended it.
    pub code: Option<i32>,
}

#[expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "how a command ended may be all that a test wants to know"
)]
impl Output {
    /// The output of a command that must have ended with this exit code.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code of {self}");
        self
    }

    /// The output of a command that must have succeeded.
    pub fn succeeds(self) -> Self {
        self.exits(0)
    }

    /// What it printed, as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).must(&format!("read JSON from {self}"))
    }

    /// The one line that a command which failed must have said, and nothing that looks like a crash.
    #[must_use]
    pub fn complaint(&self) -> &str {
        let line = self.stderr.trim_end();
        let is_crash =
            ["panicked at", "stack backtrace", "RUST_BACKTRACE"].iter().any(|word| line.contains(word));
        assert!(!line.is_empty() && line.lines().count() == 1 && !is_crash, "not one sentence: {self}");
        line
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, stdout, stderr, code } = self;
        write!(f, "{command} (exit code {code:?})\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
