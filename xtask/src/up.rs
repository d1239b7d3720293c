//! `cargo xtask up` and `down`: a cluster with the operator in it, to play with.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::process::Command;
use webservice_tests::cluster::progress::{Progress, step};
use webservice_tests::cluster::tools::HELM_4;
use webservice_tests::cluster::{Cluster, ClusterName, Options, Tier};
use webservice_tests::helm::{Helm, chart};
use webservice_tests::operator_image::{self, LOCAL, Profile};

use crate::cargo::cargo;
use crate::interrupt::or_interrupt;
use crate::operator::Operator;
use crate::root;
use crate::terminal::Terminal;

/// What the samples may take until they are Ready.
const READY: Duration = Duration::from_mins(1);

/// Start a cluster, install the operator in it by Helm, and apply three samples
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the cluster; several run side by side
    #[arg(long, default_value = "dev")]
    name: ClusterName,
    /// Run webhook and controller as processes beside the cluster, which then has no node: quicker, and needs no root
    #[arg(long)]
    processes: bool,
    /// The same, but start no controller and apply no samples: the tutorial begins here
    #[arg(long)]
    without_controller: bool,
    /// Take the programs as they were built last
    #[arg(long)]
    no_build: bool,
}

/// Stop and remove everything that `up` has started
#[derive(clap::Args)]
pub(crate) struct DownArgs {
    /// Name of the cluster
    #[arg(long, default_value = "dev")]
    name: ClusterName,
}

pub(crate) async fn up(args: Args) -> Result<()> {
    let progress = Terminal::new();
    let result = or_interrupt(start(&args, &progress)).await;
    if result.is_err() && Cluster::open(&args.name).is_ok() {
        progress.note(&format!("cluster {} is left for a look; `cargo xtask down` removes it", args.name));
    }
    result
}

pub(crate) async fn down(args: DownArgs) -> Result<()> {
    let existed = Cluster::down(&args.name).await?;
    println!("{}", if existed { "everything is stopped and removed" } else { "there was nothing to remove" });
    Ok(())
}

async fn start(args: &Args, progress: &dyn Progress) -> Result<()> {
    if !args.no_build {
        step(progress, "build webhook, controller and kubectl plugin", build()).await?;
    }
    let cluster = if args.processes || args.without_controller {
        start_processes(args, progress).await?
    } else {
        install(args, progress).await?
    };
    let tools = tools(&cluster)?;
    if !args.without_controller {
        apply_samples(&cluster, progress).await?;
    }
    print_next(&cluster, &tools, args);
    Ok(())
}

async fn start_processes(args: &Args, progress: &dyn Progress) -> Result<Cluster> {
    let cluster = Cluster::up(&args.name, Tier::ControlPlane, &Options::default(), progress).await?;
    let operator = Operator::of(cluster);
    step(progress, "install the CRD", operator.install_crd()).await?;
    step(progress, "start the webhook", operator.start_webhook()).await?;
    if !args.without_controller {
        step(progress, "start the controller", operator.start_controller()).await?;
    }
    Ok(operator.into_cluster())
}

/// As people do it on a cluster of theirs.
async fn install(args: &Args, progress: &dyn Progress) -> Result<Cluster> {
    let image = step(progress, "build the image", operator_image::build(LOCAL, Profile::Dev)).await?;
    let cluster = Cluster::up(&args.name, Tier::Node, &Options::default(), progress).await?;
    step(progress, "load the image", cluster.load_image(&image)).await?;
    let helm = Helm::new(&HELM_4, progress).await?.on(&cluster.kubeconfig_path());
    let (chart, values) = (chart().display().to_string(), operator_image::values(LOCAL));
    let install = ["upgrade", "--install", "webservice-operator", &chart, "--namespace=webservice-system"];
    let how = ["--create-namespace", "--wait", "--timeout=3m", &values];
    step(progress, "helm install webservice-operator", async {
        let answer = helm.run(&[&install[..], &how].concat()).await?;
        answer.map(drop).map_err(|complaint| anyhow!("{}", complaint.trim()))
    })
    .await?;
    println!("\n{}", kubectl(&cluster, &["get", "pods", "--namespace=webservice-system"]).await?);
    Ok(cluster)
}

async fn apply_samples(cluster: &Cluster, progress: &dyn Progress) -> Result<()> {
    let apply = kubectl(cluster, &["apply", "-f", "examples/shop.yaml"]);
    step(progress, "apply examples/shop.yaml", apply).await?;
    let timeout = format!("--timeout={}s", READY.as_secs());
    let wait = ["wait", "--namespace=shop", "--for=condition=Ready", "webservice", "--all", &timeout];
    step(progress, "wait until the samples are Ready", kubectl(cluster, &wait)).await?;
    println!("\n{}", kubectl(cluster, &["get", "webservices", "--namespace=shop"]).await?);
    Ok(())
}

fn print_next(cluster: &Cluster, tools: &Path, args: &Args) {
    println!("To use it in this shell:\n");
    println!("  export KUBECONFIG={}", cluster.kubeconfig_path().display());
    println!("  export PATH={}:$PATH", tools.display());
    println!("\nThen try:\n");
    if args.without_controller {
        println!("  cargo xtask controller start    # the tutorial, docs/tutorial.md, says when");
    } else {
        println!("  kubectl webservice explain checkout -n shop");
        println!("  kubectl scale webservice checkout -n shop --replicas=5");
        println!(
            "  kubectl patch configmap checkout-desired -n shop --patch '{{\"data\": {{\"replicas\": \"1\"}}}}'    # it comes back"
        );
        println!(
            "  kubectl patch webservice search -n shop --type=merge --patch '{{\"spec\": {{\"image\": \"\"}}}}'    # it is refused"
        );
    }
    println!("\n`cargo xtask down` removes everything. Logs: {}", cluster.directory().join("logs").display());
}

async fn build() -> Result<()> {
    let mut command = cargo(&["build", "--workspace", "--bins", "--locked"]);
    let built = command.stdin(Stdio::null()).output().await.context("failed to start cargo")?;
    ensure!(built.status.success(), "failed to build:\n{}", String::from_utf8_lossy(&built.stderr));
    Ok(())
}

/// A directory of the cluster with kubectl of its version and our plugin, for somebody's PATH.
fn tools(cluster: &Cluster) -> Result<PathBuf> {
    let directory = cluster.directory().join("bin");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("failed to create {}", directory.display()))?;
    let kubectl = PathBuf::from(cluster.kubectl().get_program());
    let plugin = crate::operator::program("kubectl-webservice")?;
    for (name, target) in [("kubectl", kubectl), ("kubectl-webservice", plugin)] {
        let link = directory.join(name);
        if link.symlink_metadata().is_ok() {
            std::fs::remove_file(&link)?;
        }
        symlink(&target, &link).with_context(|| format!("failed to link {}", link.display()))?;
    }
    Ok(directory)
}

/// Runs kubectl, and gives what it prints.
async fn kubectl(cluster: &Cluster, args: &[&str]) -> Result<String> {
    let mut command = Command::from(cluster.kubectl());
    command.args(args).current_dir(root()).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.context("failed to start kubectl")?;
    if !output.status.success() {
        bail!("kubectl {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
