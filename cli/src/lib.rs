//! The kubectl plugin: what the controller would do with a WebService, and why, without waiting for it.
//!
//! It decides nothing by itself. It fills the controller's caches with one list per kind, and from there on it runs the
//! controller's own four beats: `observe` shows the first, `plan` the first two, `reconcile` makes a whole pass.
//! `release` removes the finalizer where no controller will do it any more.
//! `validate` checks files against the rules of the admission webhook, without a cluster.
//!
//! Every command gives one `Answer`, which is printed as a table, JSON or YAML.

mod args;
mod connect;
mod error;
mod explain;
mod leader;
mod observe;
mod order;
mod output;
mod pass;
mod plan;
mod reader;
mod reconcile;
mod release;
#[cfg(test)]
mod samples;
mod validate;

use std::process::ExitCode;

pub use args::Args;
use args::Command;
use output::Verdict;

/// Runs one command and prints its answer. Exit codes: 0 done or converged, 1 failed, 3 not converged; 2, usage, is clap's.
pub async fn run(args: Args) -> ExitCode {
    let (format, answer) = match args.command {
        Command::Observe(args) => (args.printing.output, observe::run(&args).await),
        Command::Plan(args) => (args.printing.output, plan::run(&args).await),
        Command::Reconcile(args) => (args.printing.output, reconcile::run(&args).await),
        Command::Validate(args) => (args.printing.output, validate::run(&args)),
        Command::Explain(args) => (args.printing.output, explain::run(&args).await),
        Command::Release(args) => (args.printing.output, release::run(&args).await),
    };
    let verdict = answer.and_then(|answer| output::print(&answer, format)).unwrap_or_else(|error| {
        output::complain(&error);
        Verdict::Failed
    });
    verdict.into()
}
