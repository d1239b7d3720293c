//! `cargo xtask test`: every behaviour once. What people and CI both run.

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use webservice_api::rbac::{self, Names};
use webservice_tests::bed::{AUDIT_LOGS, Calls, Differences};
use webservice_tests::cluster::{Cluster, ClusterName, Kubernetes, Options, Tier};

use crate::cargo::cargo;
use crate::generate::{self, Helm};
use crate::interrupt::or_interrupt;
use crate::terminal::{Terminal, human};

/// Format, lints, generated files, unit tests, and the suites on a real cluster
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what needs a cluster
    #[arg(long)]
    fast: bool,
    /// Only what meets a cluster, on this version of Kubernetes: newest or 1.34
    #[arg(long, conflicts_with = "fast")]
    kubernetes: Option<Kubernetes>,
    /// Only tests of the cluster suite whose name contains this; nothing else is run
    filter: Option<String>,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let mut report = Report { kubernetes: args.kubernetes, ..Report::default() };
    let result = or_interrupt(all(&args, &mut report)).await;
    report.print();
    result
}

async fn all(args: &Args, report: &mut Report) -> Result<()> {
    let everything = args.filter.is_none() && args.kubernetes.is_none();
    if everything {
        report.cargo("format", &["fmt", "--all", "--check"]).await?;
        let helm = if args.fast { Helm::IfBuilt } else { Helm::Build };
        report.time("generated files", generate::check(helm)).await?;
        let clippy = ["clippy", "--workspace", "--all-targets", "--locked", TEST_HOOKS];
        report.cargo("lints", &[&clippy[..], &["--", "-D", "warnings"]].concat()).await?;
    }
    // Everything is built and tested as one workspace: another selection of packages has other features, and so is built anew.
    report.cargo("build", &["build", "--workspace", "--all-targets", "--locked"]).await?;
    if everything {
        let mut tests = vec!["--lib", "--bins"];
        tests.extend(WITHOUT_CLUSTER.iter().flat_map(|test| ["--test", test]));
        report.tests("unit tests", &tests).await?;
    }
    if !args.fast {
        build_slowed_webhook(report).await?;
        if args.filter.is_none() {
            report.tests("chart", &["--test", "chart"]).await?;
        }
        on_a_cluster(args.filter.as_deref(), &[], report).await?;
        if args.filter.is_none() {
            report.tests("clusters side by side", &["--test", "cluster"]).await?;
            // One after the other: each has a node of its own, and some have calls that come at a rate.
            for (step, test) in [("node", "node"), ("chart on a node", "install")] {
                report.tests(step, &["--test", test, "--", "--test-threads=1"]).await?;
            }
        }
    }
    Ok(())
}

/// Tests that run our programs, and need no cluster for it.
const WITHOUT_CLUSTER: [&str; 4] = ["plugin", "reload", "webhook", "webhook_proofs"];

/// Tests of the suite at a time: they wait most of the time, for the API server or for a deadline.
const THREADS: &str = "--test-threads=4";

/// The suite or a part of it, on a cluster that is there for it alone.
pub(crate) async fn on_a_cluster(
    filter: Option<&str>,
    environment: &[(&str, &str)],
    report: &mut Report,
) -> Result<()> {
    let name: ClusterName = format!("test-{}", std::process::id()).parse()?;
    let _down = Down(&name);
    let options = Options { kubernetes: report.kubernetes, ..Options::default() };
    let progress = Terminal::new();
    let started = Cluster::up(&name, Tier::ControlPlane, &options, &progress);
    let cluster = report.time("cluster", started).await?;
    let mut suite = cargo(&["test", "--workspace", "--locked", "--test", "suite", "--"]);
    // A proof says how far it is while it runs, and no other disturbs it.
    let how: &[&str] = if environment.is_empty() { &[THREADS] } else { &["--test-threads=1", "--nocapture"] };
    suite.args(filter).args(how);
    suite.env("WEBSERVICE_TEST_CLUSTER", name.to_string()).envs(environment.iter().copied());
    if filter.is_some() {
        return report.command("cluster suite", &mut suite).await;
    }
    let others = cluster.directory().join("audit-logs-of-others");
    std::fs::create_dir_all(&others).with_context(|| format!("failed to create {}", others.display()))?;
    report.command("cluster suite", suite.env(AUDIT_LOGS, &others)).await?;
    report.time("rights", async { compare_rights(&cluster.audit_log_path(), &others) }).await
}

/// Fails where the whole suite, on its cluster and on the tests' `others`, has not used a right that is granted, or was forbidden
/// something.
fn compare_rights(log: &Path, others: &Path) -> Result<()> {
    let mut calls = Calls::of(log)?;
    for other in std::fs::read_dir(others).with_context(|| format!("failed to read {}", others.display()))? {
        calls.append(Calls::of(&other?.path())?);
    }
    let differences = Differences::between(&rbac::all(&Names::default()), &calls);
    ensure!(differences.is_empty(), "rights: granted and used differ\n{differences}");
    Ok(())
}

/// Compiles in the faults that tests ask for.
const TEST_HOOKS: &str = "--features=webservice-webhook/test-hooks";

/// The webhook whose decisions take long. The feature makes another build of the library, so the shipped binary stays.
pub(crate) async fn build_slowed_webhook(report: &mut Report) -> Result<()> {
    let which = ["build", "--workspace", "--locked", TEST_HOOKS, "--bin=webservice-webhook-slow"];
    report.cargo("slowed webhook", &which).await
}

/// Takes the cluster down, however the suite ends.
struct Down<'n>(&'n ClusterName);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        if let Err(error) = Cluster::down_blocking(self.0) {
            eprintln!("failed to take down cluster {}: {error:#}", self.0);
        }
    }
}

/// What took how long.
#[derive(Default)]
pub(crate) struct Report {
    steps: Vec<(&'static str, Duration, bool)>,
    /// What the clusters run that the commands start.
    kubernetes: Option<Kubernetes>,
}

impl Report {
    pub(crate) async fn cargo(&mut self, step: &'static str, args: &[&str]) -> Result<()> {
        self.command(step, &mut cargo(args)).await
    }

    /// Runs tests of the whole workspace.
    async fn tests(&mut self, step: &'static str, which: &[&str]) -> Result<()> {
        self.command(step, cargo(&["test", "--workspace", "--locked"]).args(which)).await
    }

    pub(crate) async fn command(&mut self, step: &'static str, command: &mut Command) -> Result<()> {
        command.envs(self.kubernetes.map(|version| (Kubernetes::VARIABLE, version.to_string())));
        let run = async {
            let status: ExitStatus = command.status().await.context("failed to start cargo")?;
            ensure!(status.success(), "{step}: failed, see above");
            Ok(())
        };
        self.time(step, run).await
    }

    async fn time<T>(&mut self, step: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        eprintln!("── {step}");
        let started = Instant::now();
        let result = work.await;
        self.steps.push((step, started.elapsed(), result.is_ok()));
        result
    }

    pub(crate) fn print(&self) {
        eprintln!("──");
        for (step, took, success) in &self.steps {
            let mark = if *success { '✓' } else { '✗' };
            eprintln!("{mark} {step:<28} {:>12}", human(*took));
        }
        let total = self.steps.iter().map(|(_, took, _)| *took).sum();
        eprintln!("  {:<28} {:>12}", "together", human(total));
    }
}
