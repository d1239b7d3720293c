//! `cargo xtask cluster`, as a person uses it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use webservice_tests::cluster::process::ProcessId;

const DEADLINE: Duration = Duration::from_mins(2);

/// A home of its own for each test, with the binaries of the user.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(arguments).env("XDG_STATE_HOME", self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> String {
        succeeded(self.command(arguments).output().unwrap())
    }

    fn clusters(&self) -> PathBuf {
        self.0.path().join("webservice-operator/clusters")
    }

    /// The processes that the cluster's records name, in whatever state it is.
    fn processes(&self, cluster: &str) -> Vec<ProcessId> {
        let records = fs::read_dir(self.clusters().join(cluster).join("run")).into_iter().flatten();
        let json = records.map(|record| record.unwrap().path()).filter(|path| has_extension(path, "json"));
        json.filter_map(|path| pid_in(&fs::read_to_string(path).ok()?)).collect()
    }

    /// Waits until etcd was started, which is in the middle of a start.
    fn half_way(&self, cluster: &str) -> Vec<ProcessId> {
        eventually(|| Some(self.processes(cluster)).filter(|processes| !processes.is_empty()))
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.clusters()).into_iter().flatten().count() == 0
    }
}

/// Even when a test fails, it leaves no process behind.
impl Drop for Home {
    fn drop(&mut self) {
        _ = self.command(&["cluster", "down", "--all"]).status();
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn pid_in(record: &str) -> Option<ProcessId> {
    let record: Value = serde_json::from_str(record).ok()?;
    ProcessId::of(record["process"]["pid"].as_u64()?.try_into().ok()?)
}

fn succeeded(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn eventually<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(started.elapsed() < DEADLINE, "it did not come true");
        sleep(Duration::from_millis(10));
    }
}

fn all_ended(processes: &[ProcessId]) -> bool {
    processes.iter().all(|process| process.wait(DEADLINE))
}

fn interrupt(child: &Child) {
    let process = ProcessId::of(child.id()).unwrap();
    assert!(process.signal(rustix::process::Signal::INT).unwrap());
}

#[test]
fn two_clusters_run_side_by_side_and_leave_nothing() {
    let home = Home::new();
    for child in ["red", "blue"].map(|name| home.spawn(&["cluster", "up", "--name", name])) {
        succeeded(child.wait_with_output().unwrap());
    }
    for (name, key) in [("red", "a"), ("blue", "b")] {
        let literal = format!("--from-literal={key}=1");
        home.run(&["kubectl", "--name", name, "--", "create", "configmap", "mine", &literal]);
    }
    let red = home.run(&["kubectl", "--name", "red", "get", "configmap", "mine", "-o", "jsonpath={.data}"]);
    assert_eq!(red, r#"{"a":"1"}"#);

    let status: Value = serde_json::from_str(&home.run(&["cluster", "status", "-o", "json"])).unwrap();
    let health = status.as_array().unwrap().iter().map(|cluster| (&cluster["name"], &cluster["health"]));
    assert!(health.eq([(&json!("blue"), &json!("running")), (&json!("red"), &json!("running"))]), "{status}");

    let processes = [home.processes("red"), home.processes("blue")].concat();
    assert_eq!(processes.iter().map(|process| process.pid()).collect::<BTreeSet<_>>().len(), 6);
    for child in ["red", "blue"].map(|name| home.spawn(&["cluster", "down", "--name", name])) {
        succeeded(child.wait_with_output().unwrap());
    }
    assert!(processes.iter().all(|process| !process.is_alive()));
    assert!(home.is_empty());
}

#[test]
fn ctrl_c_during_the_start_takes_down_what_was_started() {
    let home = Home::new();
    let up = home.spawn(&["cluster", "up", "--name", "cut"]);
    let processes = home.half_way("cut");
    interrupt(&up);
    let output = up.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(processes.iter().all(|process| !process.is_alive()));
    assert!(home.is_empty());
}

#[test]
fn a_start_that_was_killed_is_cleaned_up_by_down() {
    let home = Home::new();
    let mut up = home.spawn(&["cluster", "up", "--name", "killed"]);
    let processes = home.half_way("killed");
    up.kill().unwrap();
    up.wait().unwrap();
    home.run(&["cluster", "down", "--name", "killed"]);
    assert!(all_ended(&processes));
    assert!(home.is_empty());
}

#[test]
fn a_cluster_that_lost_a_process_is_called_broken_and_started_anew() {
    let home = Home::new();
    home.run(&["cluster", "up", "--name", "worn"]);
    let first = home.processes("worn");
    assert!(first[0].signal(rustix::process::Signal::KILL).unwrap() && first[0].wait(DEADLINE));

    let status = home.command(&["cluster", "status", "--name", "worn"]).output().unwrap();
    assert!(!status.status.success());
    assert!(String::from_utf8_lossy(&status.stdout).contains("worn: broken"));

    home.run(&["cluster", "up", "--name", "worn"]);
    home.run(&["cluster", "status", "--name", "worn"]);
    assert!(first.iter().all(|process| !process.is_alive()));
}

#[test]
fn starting_the_same_cluster_twice_at_once_starts_it_once() {
    let home = Home::new();
    let both = [(), ()].map(|()| home.spawn(&["cluster", "up", "--name", "same"]));
    for child in both {
        succeeded(child.wait_with_output().unwrap());
    }
    assert_eq!(home.processes("same").len(), 3);
}

#[test]
fn taking_down_what_is_not_there_is_no_error() {
    let home = Home::new();
    home.run(&["cluster", "down", "--name", "nothing"]);
    assert!(home.is_empty());
}

#[test]
fn kubectl_without_a_cluster_says_how_to_start_one() {
    let home = Home::new();
    let output = home.command(&["kubectl", "--name", "nothing", "get", "ns"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("start it with `cargo xtask cluster up --name nothing`"), "{stderr}");
}
