//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use webservice_controller::engine::{ObjectKey, Scope};

use crate::output::Format;

/// Shows what the controller sees of a WebService, what it would do and why, and does it.
///
/// Exit codes: 0 done or converged, 1 failed, 2 wrong usage, 3 not converged (something waits or is refused).
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-webservice",
    bin_name = "kubectl webservice",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a WebService asks for beside what there is
    Observe(OneArgs),
    /// Show what the controller would do next, and why; nothing is changed
    ///
    /// Exit code 3 when it would wait or refuse.
    Plan(SomeArgs),
    /// Make one pass, as the controller does
    ///
    /// Creates, repairs or cleans up the child, then writes the status. Safe beside a running controller, and safe to repeat: what matches already is not written. With --all, dependencies
    /// come before those that wait for them. Exit code 3 when something waits or is refused.
    Reconcile(SomeArgs),
    /// Check manifests against the rules of the admission webhook, without a cluster
    ///
    /// Reads YAML and JSON, with several documents per file and v1 Lists. All violations are shown at once, each with the path
    /// of its field; warnings do not make the check fail. Exit code 1 when a rule is violated or a document is no WebService.
    Validate(ValidateArgs),
    /// Say in sentences why a WebService is not Ready, and what to do next
    Explain(OneArgs),
    /// Remove the finalizer of WebServices that no controller will remove any more
    ///
    /// For the time after an operator that is gone. Deletions that hang then end at once, and the garbage collector deletes the
    /// ConfigMaps. A WebService that is not being deleted is refused while a controller leads, since that would put the
    /// finalizer back. Exit code 3 when something was refused.
    Release(ReleaseArgs),
}

/// About one WebService of a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// Name of the WebService
    #[arg(value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// About one or several WebServices of a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct SomeArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// About manifests.
#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    /// Files to check; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// File with the webhook's policy (YAML); without it no limits are checked beyond what makes an object work
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// About WebServices that are to be let go.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Do not ask before releasing more than one by name
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Namespace of the controller, whose Lease tells whether it leads; by default those of all namespaces are looked at
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) operator_namespace: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// Which WebServices.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Selection {
    /// Name of the WebService
    #[arg(value_parser = name, conflicts_with_all = ["all", "all_namespaces"])]
    pub(crate) name: Option<String>,
    /// All WebServices of the namespace
    #[arg(long)]
    pub(crate) all: bool,
    /// All WebServices of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
}

impl Selection {
    /// What is listed, where `namespace` was asked for.
    pub(crate) fn scope(&self, namespace: &str) -> Scope {
        if self.all_namespaces { Scope::Cluster } else { Scope::Namespace(namespace.into()) }
    }

    /// How a WebService is called in a table: with its namespace only where there can be several.
    pub(crate) fn shown(&self, key: &ObjectKey) -> String {
        if self.all_namespaces { key.to_string() } else { key.name().to_owned() }
    }
}

/// Which cluster and namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// Namespace; that of the context by default
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file; by default those that KUBECONFIG lists, or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; the current one by default
    #[arg(long)]
    pub(crate) context: Option<String>,
}

/// For people or for programs.
#[derive(Debug, clap::Args)]
pub(crate) struct Printing {
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

fn name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains('/') {
        return Err("write the name alone, such as checkout");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn refused(args: &[&str]) -> ErrorKind {
        let args = std::iter::once(&"kubectl-webservice").chain(args);
        Args::try_parse_from(args).unwrap_err().kind()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_plan_is_made_of_one_or_of_all_but_not_of_nothing_or_both() {
        assert_eq!(refused(&["plan"]), ErrorKind::MissingRequiredArgument);
        assert_eq!(refused(&["plan", "checkout", "--all"]), ErrorKind::ArgumentConflict);
        assert_eq!(refused(&["plan", "checkout", "-A"]), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn one_namespace_and_all_namespaces_exclude_each_other() {
        assert_eq!(refused(&["reconcile", "-A", "-n", "shop"]), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn a_name_with_its_kind_in_front_is_refused_with_a_remedy() {
        assert_eq!(refused(&["explain", "webservice/checkout"]), ErrorKind::ValueValidation);
    }
}
