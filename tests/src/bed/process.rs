//! One of our servers as a process, with its log.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::command::binary;
use super::eventually::{DEADLINE, within};
use super::must::Must;
use super::webhook::Webhook;

/// A running server. It is killed when the value goes, and by the kernel when the test does in any other way.
pub struct Process {
    name: String,
    child: Mutex<Child>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts our program of this name. Its log is `DIRECTORY/NAME.log`, what it says on stderr is in `NAME.err`.
    pub(crate) fn start(
        name: &str,
        program: &str,
        arguments: impl IntoIterator<Item = String>,
        directory: &Path,
    ) -> Self {
        Self::run(name, &binary(program), arguments, directory)
    }

    /// The same with any program.
    pub(super) fn run(
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = String>,
        directory: &Path,
    ) -> Self {
        let path = |extension: &str| directory.join(format!("{name}.{extension}"));
        let (stdout, stderr) = (path("log"), path("err"));
        let file = |path: &Path| File::create(path).must(&format!("create {}", path.display()));
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file(&stdout))
            .stderr(file(&stderr))
            .spawn()
            .must("start setpriv (of the Debian package util-linux)");
        Self { name: name.to_owned(), child: Mutex::new(child), stdout, stderr }
    }

    /// Starts a webhook that serves nobody, with its certificate, its log and all in `directory`, and waits until it listens.
    pub async fn webhook(directory: &Path) -> Self {
        let arguments = Webhook::arguments(directory);
        let process = Self::start("webhook", "webservice-webhook", arguments, directory);
        process.listening().await;
        process
    }

    /// Waits until it listens, and gives the line of the log that says where.
    pub(crate) async fn listening(&self) -> Value {
        self.await_line("says that it listens", |line| line["message"] == "listening").await
    }

    /// Waits for a line of the log. Fails at once when the process has ended.
    pub async fn await_line(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        within(DEADLINE, &format!("{} {what}", self.name), async || {
            let ended = self.exit_status();
            match (self.log().into_iter().find(|line| is_it(line)), ended) {
                (Some(line), _) => Ok(line),
                (None, Some(status)) => {
                    panic!("{} has ended ({status}) before it {what}: {}", self.name, self.output())
                }
                (None, None) => Err(self.output()),
            }
        })
        .await
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.with_child(|child| child.id())
    }

    /// The lines of its log so far, each a JSON object.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.stdout).unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The lines of the log at level ERROR.
    #[must_use]
    pub fn errors(&self) -> Vec<Value> {
        self.log().into_iter().filter(|line| line["level"] == "ERROR").collect()
    }

    /// All that it has printed so far, on both streams.
    #[must_use]
    pub fn output(&self) -> String {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        read(&self.stdout) + &read(&self.stderr)
    }

    /// Asks it to stop, as a kubelet does, and waits until it has, with exit code 0.
    pub async fn stop(&self) {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert!(status.success(), "{} ended with {status}: {}", self.name, self.output());
    }

    /// Ends it without a chance to do anything more.
    pub async fn kill(&self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Stops its clock, so to speak: it looks like a process on a machine that hangs.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Goes on after [`Process::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&self) -> ExitStatus {
        within(DEADLINE, &format!("{} ends", self.name), async || {
            self.exit_status().ok_or_else(|| self.output())
        })
        .await
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        self.with_child(|child| child.try_wait().must("wait for a child"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Its pid is not given away before it is waited for, which only happens under the same lock.
        self.with_child(|child| {
            let has_ended = child.try_wait().must("wait for a child").is_some();
            assert!(!has_ended, "{} is to get {signal:?}, but has ended: {}", self.name, self.output());
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            kill_process(pid.ok_or(rustix::io::Errno::SRCH).must("read a pid"), signal).must("send a signal");
        });
    }

    fn with_child<T>(&self, use_it: impl FnOnce(&mut Child) -> T) -> T {
        use_it(&mut self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.with_child(|child| {
            // Fails where it has ended already.
            _ = child.kill();
            _ = child.wait();
        });
    }
}

/// An address in a line of a log.
pub(crate) fn address(line: &Value, field: &str) -> SocketAddr {
    line[field].as_str().unwrap_or_default().parse().must(&format!("read the address {field} in {line}"))
}
