//! `cargo xtask kubectl`

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};
use webservice_tests::cluster::{Cluster, ClusterName};

/// Run kubectl, of the cluster's own version, as the cluster's administrator
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The cluster
    #[arg(long, default_value = "dev")]
    name: ClusterName,
    /// What kubectl is given, such as `get namespaces`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Becomes kubectl: its exit code, its terminal and its signals are the command's own.
pub(crate) fn run(args: &Args) -> Result<()> {
    let error = Cluster::open(&args.name)?.kubectl().args(&args.arguments).exec();
    Err(error).context("failed to run kubectl")
}
