//! The measuring program, which `cargo xtask bench` builds like the programs that it measures, and runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime::Builder;
use webservice_tests::bench::table::Table;
use webservice_tests::bench::{controller, cores, echo, webhook};

/// Measures the operator's programs.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the admission webhook
    Webhook(WebhookArgs),
    /// Measure the controller, on clusters of its own
    Controller(ControllerArgs),
    /// Be the server that the webhook is compared with
    #[command(hide = true)]
    Echo { certificates: PathBuf },
}

#[derive(clap::Args)]
struct WebhookArgs {
    /// Three short rounds, to see that it works
    #[arg(long)]
    quick: bool,
    /// Fail where a floor does
    #[arg(long)]
    check: bool,
    /// Measure only these
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<webhook::Measure>,
    /// Measure this build of the webhook instead of the one beside this program
    #[arg(long, value_name = "PROGRAM")]
    webhook: Option<PathBuf>,
    /// Where the raw figures go
    #[arg(long, value_name = "DIRECTORY", default_value = "target/bench")]
    output: PathBuf,
}

#[derive(clap::Args)]
struct ControllerArgs {
    /// A short form of each, to see that it works
    #[arg(long)]
    quick: bool,
    /// Fail where a floor does
    #[arg(long)]
    check: bool,
    /// Measure only these
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<controller::Measure>,
    /// `WebServices` that wait for the controller in C3
    #[arg(long, value_name = "COUNT")]
    backlog: Option<usize>,
    /// Where the raw figures go
    #[arg(long, value_name = "DIRECTORY", default_value = "target/bench")]
    output: PathBuf,
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Webhook(args) => measure(args),
        Command::Controller(args) => measure_controller(args),
        Command::Echo { certificates } => serve(&certificates),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One thread, on one core.
fn measure(args: WebhookArgs) -> Result<()> {
    cores::pin(cores::LOAD)?;
    let WebhookArgs { quick, check, only, webhook: program, output } = args;
    let measures = if only.is_empty() { webhook::Measure::value_variants() } else { &only };
    let program = program.map_or_else(|| beside_this("webservice-webhook"), Ok)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut table = webhook::table(quick);
    let outcome = runtime.block_on(webhook::run(program, measures, &mut table));
    conclude(&table, outcome, &output, check)
}

/// As many threads as the controller has, not bound to any core: the API server needs them all.
fn measure_controller(args: ControllerArgs) -> Result<()> {
    let ControllerArgs { quick, check, only, backlog, output } = args;
    let measures = if only.is_empty() { controller::Measure::value_variants() } else { &only };
    let plan = controller::Plan::new(quick);
    let plan = backlog.map_or(plan, |count| plan.with_backlog(count));
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let mut table = controller::table(quick);
    let outcome = runtime.block_on(controller::run(measures, plan, &mut table));
    conclude(&table, outcome, &output, check)
}

fn conclude(table: &Table, outcome: Result<()>, output: &Path, check: bool) -> Result<()> {
    println!("{table}raw figures: {}", table.save(output)?.display());
    outcome?;
    if check { table.check() } else { Ok(()) }
}

/// As many threads as `#[tokio::main]` gives the webhook.
fn serve(certificates: &Path) -> Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    match runtime.block_on(echo::run(certificates))? {}
}

fn beside_this(program: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("failed to find this program")?;
    Ok(this.with_file_name(program))
}
