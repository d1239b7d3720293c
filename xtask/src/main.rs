//! What people and CI both call: `cargo xtask COMMAND`.

#![allow(
    clippy::large_futures,
    reason = "each command is one future that is polled once in the life of the process"
)]

mod bench;
mod cargo;
mod cluster;
mod controller;
mod generate;
mod generate_chart;
mod image;
mod interrupt;
mod kubectl;
mod metrics_page;
mod operator;
mod prove;
mod terminal;
mod test;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use webservice_tests::cargo::root;

/// Builds, runs and checks the WebService operator.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Args),
    Down(up::DownArgs),
    Test(test::Args),
    Prove(prove::Args),
    Bench(bench::Args),
    Controller(controller::Args),
    Cluster(cluster::Args),
    Gen(generate::Args),
    Image(image::Args),
    Kubectl(kubectl::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Xtask::parse().command {
        Command::Up(args) => up::up(args).await,
        Command::Down(args) => up::down(args).await,
        Command::Prove(args) => prove::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Controller(args) => controller::run(args).await,
        Command::Cluster(args) => cluster::run(args).await,
        Command::Image(args) => image::run(args).await,
        Command::Gen(args) => generate::run(&args).await,
        Command::Test(args) => test::run(args).await,
        Command::Kubectl(args) => kubectl::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            interrupt::exit_code(&error)
        }
    }
}
