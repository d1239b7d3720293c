//! `cargo xtask prove SUITE`: what is too long to be run every time.

use anyhow::{Result, ensure};
use clap::{Subcommand, ValueEnum};

use crate::cargo::cargo;
use crate::interrupt::or_interrupt;
use crate::test::{Report, build_slowed_webhook, on_a_cluster};

/// Run the long form of a suite: repetitions, soaks and waits that `cargo xtask test` shortens
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// A storm of faults for three minutes, watches that die in silence
    Faults,
    /// A chain of 1,000 dependencies
    Chains,
    /// A token that is rotated while the controller runs
    Outages,
    /// 50 WebServices at rest for five minutes: no writes
    Steady,
    /// Two writers at once, ten times each; 10,000 WebServices from a backlog through a restart
    Engine {
        /// A part of the names of its tests
        name: Option<String>,
    },
    /// 20 changes a second while the controller is restarted every minute, for ten minutes
    Soak,
    /// Defaults and rules over 100,000 generated objects; 1,000 of them put to the API server's schema, too
    Rules,
    /// The chart on a node, with the images that are shipped: 20 rolling restarts, 3 rotations in each TLS mode, once more with a kubelet that
    /// takes its time; no failed creation
    Chart {
        /// A part of the names of its tests
        name: Option<String>,
    },
    /// The webhook under swaps, stops, storms, overload and nonsense: no failed call
    Webhook {
        /// Only these parts
        #[arg(value_enum)]
        parts: Vec<Part>,
    },
}

/// A proof about the webhook.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// 100 swaps of the certificate under load
    Swaps,
    /// Connections that are not used for 1 to 95 s
    Idle,
    /// 100 replicas stopped under load
    Stops,
    /// 900 connections of strangers beside the real calls
    Storm,
    /// 1.3 and 10 times what it can decide, through the API server
    Overload,
    /// 100,000 generated objects
    Objects,
    /// Every hostile input
    Hostile,
}

/// Tells tests that they are to run in full.
const IN_FULL: [(&str, &str); 2] = [("WEBSERVICE_PROVE", "1"), ("PROPTEST_CASES", "100000")];

pub(crate) async fn run(args: Args) -> Result<()> {
    let mut report = Report::default();
    let result = or_interrupt(async {
        report.cargo("build", &["build", "--workspace", "--all-targets", "--locked"]).await?;
        match args.suite {
            Suite::Faults => on_a_cluster(Some("faults"), &IN_FULL, &mut report).await,
            Suite::Chains => on_a_cluster(Some("chains"), &IN_FULL, &mut report).await,
            Suite::Outages => on_a_cluster(Some("outages"), &IN_FULL, &mut report).await,
            Suite::Steady => on_a_cluster(Some("steady"), &IN_FULL, &mut report).await,
            Suite::Engine { name } => {
                let filter = format!("engine::{}", name.unwrap_or_default());
                on_a_cluster(Some(&filter), &IN_FULL, &mut report).await
            }
            Suite::Soak => on_a_cluster(Some("soak::"), &IN_FULL, &mut report).await,
            Suite::Rules => {
                Part::Objects.run(&mut report).await?;
                on_a_cluster(Some("agreement"), &IN_FULL, &mut report).await
            }
            Suite::Chart { name } => {
                tests("chart on a node", "install", &name.unwrap_or_default(), &mut report).await
            }
            Suite::Webhook { parts } if parts.is_empty() => {
                webhook(Part::value_variants(), &mut report).await
            }
            Suite::Webhook { parts } => webhook(&parts, &mut report).await,
        }
    })
    .await;
    report.print();
    result
}

/// All parts, whichever fail.
async fn webhook(parts: &[Part], report: &mut Report) -> Result<()> {
    let mut failed = 0;
    for part in parts {
        failed += usize::from(part.run(report).await.is_err());
    }
    ensure!(failed == 0, "{failed} of {} proofs failed, see above", parts.len());
    Ok(())
}

impl Part {
    async fn run(self, report: &mut Report) -> Result<()> {
        match self {
            Self::Swaps => tests("swaps", "webhook_proofs", "swaps::", report).await,
            Self::Idle => tests("idle gaps", "webhook_proofs", "idle::", report).await,
            Self::Stops => tests("stops", "webhook_proofs", "stops::", report).await,
            Self::Storm => tests("storm", "webhook_proofs", "storm::", report).await,
            Self::Overload => {
                build_slowed_webhook(report).await?;
                on_a_cluster(Some("overload::"), &IN_FULL, report).await
            }
            Self::Objects => {
                let mut command = cargo(&["test", "--workspace", "--locked", "--lib", "--", "admission::"]);
                report.command("generated objects", command.envs(IN_FULL)).await
            }
            Self::Hostile => tests("hostile inputs", "webhook", "hostile", report).await,
        }
    }
}

/// The tests of this name in one test binary, one after the other, with what they print.
async fn tests(step: &'static str, binary: &str, filter: &str, report: &mut Report) -> Result<()> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--test", binary, "--", filter]);
    report.command(step, command.args(["--nocapture", "--test-threads=1"]).envs(IN_FULL)).await
}
