//! The webhook with decisions that take long, to see what it does under more load than it can bear. Needs the feature
//! `test-hooks` and is not shipped.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use webservice_ops::args::duration;
use webservice_ops::process;
use webservice_webhook::{Config, hooks, run};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    config: Config,
    /// How much longer each decision takes
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    decision_delay: Duration,
}

fn main() -> ExitCode {
    let Args { config, decision_delay } = Args::parse();
    hooks::delay_decisions(decision_delay);
    process::run(env!("CARGO_BIN_NAME"), &config.log, async |shutdown| run(&config, shutdown).await)
}
