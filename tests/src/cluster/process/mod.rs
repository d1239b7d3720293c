//! The long-running processes of a cluster. They outlive the command that starts them, so each leaves a record of
//! itself in the cluster's directory: `run/NAME.json` says how it is started and which process it is, `logs/NAME.log`
//! is what it printed.

mod id;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

pub use self::id::ProcessId;
use super::files::{read_json, write_json};

/// How many lines of a log are shown when its process fails.
const TAIL: usize = 20;
/// A killed process is gone as soon as the kernel has released its memory.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const PROBE_INTERVAL: Duration = Duration::from_millis(50);
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// A command with everything that is needed to run it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    program: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl CommandLine {
    /// A program without arguments, with the caller's environment.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: Vec::new(), environment: BTreeMap::new() }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments in their order.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable on top of the caller's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// The same command, run by another one which must `exec` it, such as `nsenter --net=/run/netns/dev`. An empty
    /// wrapper changes nothing.
    #[must_use]
    pub fn wrapped_in(mut self, wrapper: &[String]) -> Self {
        if let [program, arguments @ ..] = wrapper {
            let inner = self.program.to_string_lossy().into_owned();
            self.arguments = [arguments, &[inner], &self.arguments].concat();
            self.program = program.into();
        }
        self
    }

    /// A process group of its own, because a Ctrl-C in the terminal goes to the whole group of the foreground.
    fn command(&self, stdin: Stdio, log: &File) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(&self.environment)
            .stdin(stdin)
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0);
        Ok(command)
    }
}

/// What `run/NAME.json` holds.
#[derive(Serialize, Deserialize)]
struct Record {
    command: CommandLine,
    /// None after it was stopped.
    process: Option<ProcessId>,
}

/// A named process of a cluster, running or not.
#[derive(Clone, Debug)]
pub struct Daemon {
    name: String,
    record: PathBuf,
    log: PathBuf,
}

impl Daemon {
    /// The daemon `name` of the cluster whose state is in `directory`.
    #[must_use]
    pub fn new(directory: &Path, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            record: directory.join("run").join(format!("{name}.json")),
            log: directory.join("logs").join(format!("{name}.log")),
        }
    }

    /// All daemons that were ever started in `directory`, sorted by name.
    pub fn all(directory: &Path) -> Result<Vec<Self>> {
        let Ok(entries) = fs::read_dir(directory.join("run")) else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("json")) {
                names.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
            }
        }
        names.sort();
        Ok(names.iter().map(|name| Self::new(directory, name)).collect())
    }

    /// Its name, such as `kube-apiserver`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its stdout and stderr go.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The running process, or none.
    pub fn process(&self) -> Result<Option<ProcessId>> {
        let record: Option<Record> = read_json(&self.record)?;
        Ok(record.and_then(|record| record.process).filter(|process| process.is_alive()))
    }

    /// Starts it. The record is written in the same breath, so there is no moment at which a dropped future leaves a
    /// process that nobody knows of.
    pub fn start(&self, command: &CommandLine) -> Result<()> {
        self.start_with_stdin(command, Stdio::null())
    }

    /// The same with a standard input, such as a listening socket. It is not there when the daemon is started again.
    pub fn start_with_stdin(&self, command: &CommandLine, stdin: Stdio) -> Result<()> {
        if let Some(process) = self.process()? {
            bail!("failed to start {}: it runs already as process {}", self.name, process.pid());
        }
        for path in [&self.record, &self.log] {
            let parent = path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(parent).with_context(|| format!("failed to create {}", parent.display()))?;
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("failed to open {}", self.log.display()))?;
        let mut child = command
            .command(stdin, &log)?
            .spawn()
            .with_context(|| format!("failed to start {} ({})", self.name, command.program.display()))?;
        let record = Record { command: command.clone(), process: ProcessId::of(child.id()) };
        write_json(&self.record, &record).inspect_err(|_| _ = child.kill())
    }

    /// Starts it again with the command of the last time.
    pub fn start_again(&self) -> Result<()> {
        let record: Option<Record> = read_json(&self.record)?;
        let record =
            record.with_context(|| format!("failed to start {}: it was never started", self.name))?;
        self.start(&record.command)
    }

    /// Sends it a signal; false when it does not run. For faults: a stopped process looks like a hung one.
    pub fn signal(&self, signal: Signal) -> Result<bool> {
        match self.process()? {
            Some(process) => process.signal(signal),
            None => Ok(false),
        }
    }

    /// Asks it to end, waits for `grace`, then kills it. Blocks. Doing it again is no error.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        let Some(mut record) = read_json::<Record>(&self.record)? else { return Ok(()) };
        if let Some(process) = record.process.take() {
            end(process, grace).with_context(|| format!("failed to stop {}", self.name))?;
        }
        write_json(&self.record, &record)
    }

    /// Waits until `probe` succeeds. Fails as soon as the process has ended, or when `deadline` is over, with the last
    /// answer of the probe and the end of the log.
    pub async fn ready(&self, deadline: Duration, probe: impl AsyncFn() -> Result<()>) -> Result<()> {
        let started = Instant::now();
        loop {
            let problem = match timeout(PROBE_TIMEOUT, probe()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => format!("no answer within {} s", PROBE_TIMEOUT.as_secs()),
            };
            if self.process()?.is_none() {
                bail!("{} ended before it was ready\n{}", self.name, self.log_tail());
            }
            if started.elapsed() >= deadline {
                let seconds = deadline.as_secs();
                bail!("{} was not ready within {seconds} s: {problem}\n{}", self.name, self.log_tail());
            }
            sleep(PROBE_INTERVAL).await;
        }
    }

    /// The last lines of its log, with the log's path above them.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        format!("last lines of {}:\n{}", self.log.display(), last_lines(&text, TAIL))
    }
}

/// SIGTERM, then SIGKILL after `grace`.
fn end(process: ProcessId, grace: Duration) -> Result<()> {
    if !process.signal(Signal::TERM)? || process.wait(grace) {
        return Ok(());
    }
    process.signal(Signal::KILL)?;
    if !process.wait(KILL_TIMEOUT) {
        bail!("process {} is still there {} s after SIGKILL", process.pid(), KILL_TIMEOUT.as_secs());
    }
    Ok(())
}

/// The last `count` lines, each indented by two spaces.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines.get(lines.len().saturating_sub(count)..).unwrap_or_default();
    tail.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> CommandLine {
        CommandLine::new("sh").args(["-c", script])
    }

    fn daemon() -> (tempfile::TempDir, Daemon) {
        let directory = tempfile::tempdir().unwrap();
        let daemon = Daemon::new(directory.path(), "sleeper");
        (directory, daemon)
    }

    #[test]
    fn a_wrapped_command_becomes_the_last_arguments_of_its_wrapper() {
        let wrapper = ["nsenter".to_owned(), "--net=/run/netns/dev".to_owned()];
        let command = CommandLine::new("/bin/etcd").arg("--version").wrapped_in(&wrapper);
        let by_hand = CommandLine::new("nsenter").args(["--net=/run/netns/dev", "/bin/etcd", "--version"]);
        assert_eq!(command, by_hand);
    }

    #[test]
    fn a_daemon_is_found_by_another_command_and_stopped_by_it() {
        let (directory, daemon) = daemon();
        daemon.start(&shell("exec sleep 60")).unwrap();
        let process = daemon.process().unwrap().unwrap();

        let found = Daemon::all(directory.path()).unwrap();
        assert_eq!(found.iter().map(Daemon::name).collect::<Vec<_>>(), ["sleeper"]);
        found[0].stop(GRACE).unwrap();

        assert!(!process.is_alive());
        assert_eq!(daemon.process().unwrap(), None);
    }

    #[test]
    fn a_daemon_cannot_be_started_twice() {
        let (_directory, daemon) = daemon();
        daemon.start(&shell("exec sleep 60")).unwrap();
        let second = daemon.start(&shell("exec sleep 60"));
        daemon.stop(GRACE).unwrap();
        assert!(second.unwrap_err().to_string().contains("runs already"));
    }

    #[test]
    fn a_daemon_that_ignores_sigterm_is_killed_after_its_grace() {
        let (_directory, daemon) = daemon();
        daemon.start(&shell("trap '' TERM; echo deaf; while :; do sleep 0.05; done")).unwrap();
        let process = daemon.process().unwrap().unwrap();
        while !daemon.log_tail().contains("deaf") {
            assert!(process.is_alive());
        }
        daemon.stop(Duration::from_millis(50)).unwrap();
        assert!(!process.is_alive());
    }

    #[test]
    fn a_stopped_daemon_starts_again_with_the_same_command() {
        let (_directory, daemon) = daemon();
        daemon.start(&shell("exec sleep 60")).unwrap();
        daemon.stop(GRACE).unwrap();
        daemon.start_again().unwrap();
        let runs = daemon.process().unwrap().is_some();
        daemon.stop(GRACE).unwrap();
        assert!(runs);
    }

    #[test]
    fn stopping_what_never_ran_is_no_error() {
        let (_directory, daemon) = daemon();
        daemon.stop(GRACE).unwrap();
    }

    #[tokio::test]
    async fn waiting_for_a_daemon_that_ended_fails_at_once_and_shows_its_log() {
        let (_directory, daemon) = daemon();
        daemon.start(&shell("echo no such flag >&2; exit 1")).unwrap();
        let error = daemon.ready(GRACE, async || bail!("not yet")).await.unwrap_err().to_string();
        assert!(error.contains("ended before it was ready") && error.contains("no such flag"), "{error}");
    }

    #[tokio::test]
    async fn waiting_ends_at_the_deadline_with_the_last_answer_of_the_probe() {
        let (_directory, daemon) = daemon();
        daemon.start(&shell("exec sleep 60")).unwrap();
        let waited = daemon.ready(Duration::ZERO, async || bail!("still migrating")).await;
        daemon.stop(GRACE).unwrap();
        assert!(waited.unwrap_err().to_string().contains("still migrating"));
    }

    #[test]
    fn only_the_last_lines_of_a_long_log_are_shown() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "  b\n  c");
        assert_eq!(last_lines("a\n", 2), "  a");
    }
}
