//! `cargo xtask bench PROGRAM`: what it costs, beside other programs that do less or the same.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::cargo::cargo;
use crate::interrupt::or_interrupt;
use crate::root;

/// Measure a program, built as it is shipped
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_enum)]
    program: Program,
    /// How: --quick, --check, --only=W1,W3; all are listed, with the time they take, by `cargo xtask bench PROGRAM -- --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Program {
    /// The admission webhook: CPU time per call, latency, memory, start
    Webhook,
    /// The controller, on real API servers: writes, time, memory, succession
    Controller,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Controller => "controller",
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let mut build = cargo(&["build", "--release", "--locked", "--bins"]);
    // All, whichever is measured: another selection of packages has other features, and so is built anew.
    build.args([
        "--package=webservice-webhook",
        "--package=webservice-controller",
        "--package=webservice-tests",
    ]);
    let status = or_interrupt(async { build.status().await.context("failed to start cargo") }).await?;
    ensure!(status.success(), "failed to build what is measured, see above");

    // From here on this process is the bench: its last line and its exit code are the result.
    let mut bench = std::process::Command::new(root().join("target/release/webservice-bench"));
    let error = bench.arg(args.program.name()).args(&args.options).current_dir(root()).exec();
    Err(error).context("failed to start the bench")
}
