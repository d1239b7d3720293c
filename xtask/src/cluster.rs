//! `cargo xtask cluster`

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use webservice_tests::cluster::progress::{Progress, step};
use webservice_tests::cluster::{
    Cluster, ClusterName, DaemonStatus, Health, Kubernetes, Options, Status, Tier,
};

use crate::interrupt::or_interrupt;
use crate::terminal::Terminal;

/// Start, stop and look at Kubernetes clusters on this machine
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start a cluster and wait until it is ready; one that runs already is left as it is
    Up {
        /// Several clusters run side by side by name: a DNS label of at most 20 characters
        #[arg(long, default_value = "dev")]
        name: ClusterName,
        /// How much of Kubernetes
        #[arg(long, value_enum, default_value_t = TierArg::ControlPlane)]
        tier: TierArg,
        /// Version: newest or 1.34; without it, what `WEBSERVICE_KUBERNETES` names, or the newest
        #[arg(long)]
        kubernetes: Option<Kubernetes>,
    },
    /// Stop a cluster and remove all that belongs to it, also after a start that failed
    Down {
        /// The cluster
        #[arg(long, default_value = "dev", conflicts_with = "all")]
        name: ClusterName,
        /// Every cluster of this user
        #[arg(long)]
        all: bool,
    },
    /// Show the clusters of this user; fails when a named one does not run
    Status {
        /// Only this cluster
        #[arg(long)]
        name: Option<ClusterName>,
        /// For people or for machines
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum TierArg {
    /// etcd, kube-apiserver and kube-controller-manager on 127.0.0.1
    ControlPlane,
    /// The same with a node that runs pods, in a network namespace of its own (needs root)
    Node,
}

impl From<TierArg> for Tier {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::ControlPlane => Self::ControlPlane,
            TierArg::Node => Self::Node,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.action {
        Action::Up { name, tier, kubernetes } => up(&name, tier.into(), kubernetes).await,
        Action::Down { name, all: false } => down(&[name]).await,
        Action::Down { all: true, .. } => down(&Cluster::names()?).await,
        Action::Status { name, output } => status(name.as_ref(), output),
    }
}

async fn up(name: &ClusterName, tier: Tier, kubernetes: Option<Kubernetes>) -> Result<()> {
    let options = Options { kubernetes, ..Options::default() };
    let cluster = or_interrupt(Cluster::up(name, tier, &options, &Terminal::new())).await?;
    println!("cluster {name} ({tier}, Kubernetes {}) is ready at {}", cluster.version(), cluster.server());
    println!("  export KUBECONFIG={}", cluster.kubeconfig_path().display());
    println!("  cargo xtask kubectl --name {name} -- get namespaces");
    Ok(())
}

async fn down(names: &[ClusterName]) -> Result<()> {
    let terminal = Terminal::new();
    for name in names {
        let existed = step(&terminal, &format!("remove cluster {name}"), Cluster::down(name)).await?;
        if !existed {
            terminal.note(&format!("there was no cluster {name}"));
        }
    }
    Ok(())
}

fn status(name: Option<&ClusterName>, output: Format) -> Result<()> {
    let mut clusters = Status::all()?;
    if let Some(name) = name {
        clusters.retain(|cluster| cluster.name == *name);
    }
    match output {
        Format::Json => println!("{}", serde_json::to_string_pretty(&clusters)?),
        Format::Table => print!("{}", table(&clusters)),
    }
    match (name, clusters.as_slice()) {
        (Some(name), []) => bail!("there is no cluster {name}"),
        (Some(name), [cluster]) if cluster.health != Health::Running => bail!("cluster {name} does not run"),
        _ => Ok(()),
    }
}

/// A line per cluster, and below it a line per process.
fn table(clusters: &[Status]) -> String {
    if clusters.is_empty() {
        return "no clusters\n".into();
    }
    let lines = clusters.iter().flat_map(|cluster| {
        let facts = [
            Some(word(cluster.health)),
            cluster.tier.map(|tier| tier.to_string()),
            cluster.version.clone(),
            cluster.server.clone(),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        let head = format!("{}: {}\n", cluster.name, facts.join(", "));
        std::iter::once(head).chain(cluster.daemons.iter().map(line))
    });
    lines.collect()
}

fn line(daemon: &DaemonStatus) -> String {
    let state = daemon.pid.map_or("not running".into(), |pid| format!("pid {pid}"));
    format!("  {:<24} {state:<12} {}\n", daemon.name, daemon.log.display())
}

fn word(health: Health) -> String {
    match health {
        Health::Starting => "starting",
        Health::Running => "running",
        Health::Broken => "broken",
        Health::Stopping => "stopping",
        Health::Abandoned => "abandoned",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn cluster(pid: Option<i32>) -> Status {
        Status {
            name: "dev".parse().unwrap(),
            health: Health::Running,
            tier: Some(Tier::ControlPlane),
            version: Some("v1.37.2".into()),
            created: None,
            server: None,
            kubeconfig: PathBuf::new(),
            daemons: vec![DaemonStatus { name: "etcd".into(), pid, log: "/logs/etcd.log".into() }],
        }
    }

    #[test]
    fn the_table_names_each_cluster_and_each_of_its_processes() {
        let table = table(&[cluster(Some(7))]);
        assert_eq!(
            table,
            "dev: running, control-plane, v1.37.2\n  etcd                     pid 7        /logs/etcd.log\n"
        );
    }

    #[test]
    fn a_process_that_is_gone_is_called_not_running() {
        assert!(table(&[cluster(None)]).contains("etcd                     not running"));
    }

    #[test]
    fn no_clusters_are_two_words_and_no_empty_output() {
        assert_eq!(table(&[]), "no clusters\n");
    }
}
