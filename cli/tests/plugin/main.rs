//! The binary as people run it, where no cluster is needed.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod connection;
mod usage;
mod validate;

use std::io::Write;
use std::process::{Command, Stdio};

/// What a run of the plugin left behind.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

/// The plugin, in a world without kubeconfigs.
fn plugin(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-webservice"));
    command.args(args).env_clear().env("HOME", "/nonexistent");
    command
}

fn run(args: &[&str]) -> Run {
    finish(&mut plugin(args), "")
}

fn finish(command: &mut Command, stdin: &str) -> Run {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the plugin starts");
    // One that has to say something before it reads may have ended already: what it says is looked at, not this.
    let _ = child.stdin.take().expect("stdin is piped").write_all(stdin.as_bytes());
    let output = child.wait_with_output().expect("the plugin ends");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    Run {
        code: output.status.code().expect("no signal"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}
