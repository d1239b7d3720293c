//! `cargo xtask controller`: the controller of a cluster, by itself.

use anyhow::Result;
use clap::Subcommand;
use webservice_tests::cluster::{Cluster, ClusterName};

use crate::operator::Operator;

/// Start or stop the controller of a cluster that `up` has started
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Name of the cluster
    #[arg(long, default_value = "dev", global = true)]
    name: ClusterName,
}

#[derive(Subcommand)]
enum Action {
    /// Start it, and return when it listens
    Start,
    /// Stop it, and return when it has ended
    Stop,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let operator = Operator::of(Cluster::open(&args.name)?);
    match args.action {
        Action::Start => {
            operator.start_controller().await?;
            println!("the controller runs");
        }
        Action::Stop => {
            operator.stop_controller().await?;
            println!("the controller has stopped");
        }
    }
    Ok(())
}
