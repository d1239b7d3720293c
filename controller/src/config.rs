//! Command line and environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use webservice_ops::args::{count, duration};
use webservice_ops::debug::DebugArgs;
use webservice_ops::logging::LogArgs;

use crate::certificates::WebhookArgs;
use crate::engine::Scope;

/// Keeps a ConfigMap in step with every WebService, and reports in its status.
///
/// Serves probes (/livez, /readyz) over HTTP, and Prometheus metrics (/metrics) over HTTP or TLS. Safe to stop or kill at any time.
#[derive(Debug, Clone, Parser)]
#[command(name = "webservice-controller", version)]
pub struct Config {
    /// Kubeconfig file. Default: $KUBECONFIG, then the pod's service account, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespaces to serve, separated by commas. Default: all
    #[arg(long, env = "CONTROLLER_NAMESPACES", value_name = "NAMESPACE,…", value_delimiter = ',')]
    pub namespaces: Vec<String>,

    /// WebServices that are worked on at a time
    #[arg(long, env = "CONTROLLER_CONCURRENCY", value_name = "COUNT", default_value_t = 10, value_parser = count)]
    pub concurrency: usize,

    /// Elect a leader among replicas by a Lease. The others keep their caches warm and take over at once
    #[arg(long, env = "CONTROLLER_LEADER_ELECT")]
    pub leader_elect: bool,

    /// Namespace of the Lease. Default: that of the pod, or of the kubeconfig's context
    #[arg(long, env = "CONTROLLER_LEADER_ELECTION_NAMESPACE", value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,

    /// Where /livez and /readyz are served. The default takes IPv4 and IPv6, and IPv4 alone where IPv6 is missing. Port 0: any
    #[arg(long, env = "CONTROLLER_PROBE_ADDRESS", value_name = "ADDRESS:PORT", default_value = "[::]:8081")]
    pub probe_address: SocketAddr,

    /// Where /metrics is served
    #[arg(
        long,
        env = "CONTROLLER_METRICS_ADDRESS",
        value_name = "ADDRESS:PORT",
        default_value = "[::]:8080"
    )]
    pub metrics_address: SocketAddr,

    /// Serve /metrics over TLS, with tls.crt and tls.key in this directory, usually a mounted Secret; they may change at any time
    #[arg(long, env = "CONTROLLER_METRICS_TLS_DIR", value_name = "DIRECTORY")]
    pub metrics_tls_dir: Option<PathBuf>,

    /// Let /metrics be read by those only whose token may get it by RBAC, over TLS; self-signed without --metrics-tls-dir
    #[arg(long, env = "CONTROLLER_METRICS_AUTH")]
    pub metrics_auth: bool,

    /// The debug endpoints
    #[command(flatten)]
    pub debug: DebugArgs,

    /// How long running passes may finish after SIGTERM
    #[arg(long, env = "CONTROLLER_SHUTDOWN_GRACE", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub shutdown_grace: Duration,

    /// The webhook
    #[command(flatten)]
    pub webhook: WebhookArgs,

    /// The log
    #[command(flatten)]
    pub log: LogArgs,
}

impl Config {
    /// The first namespace that is served, where not all are.
    #[must_use]
    pub fn first_namespace(&self) -> Option<&str> {
        self.namespaces.iter().map(|name| name.trim()).find(|name| !name.is_empty())
    }

    /// What is watched: the whole cluster, or each namespace by itself, with the rights that this needs.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        scopes(&self.namespaces)
    }
}

/// The scopes that a list of namespaces stands for, each once; all where it names none.
pub(crate) fn scopes(namespaces: &[String]) -> Vec<Scope> {
    let mut names: Vec<_> =
        namespaces.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return vec![Scope::Cluster];
    }
    names.into_iter().map(|name| Scope::Namespace(name.into())).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn scopes(namespaces: &str) -> Vec<Scope> {
        Config::try_parse_from(["webservice-controller", "--namespaces", namespaces]).unwrap().scopes()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Config::command().debug_assert();
    }

    #[test]
    fn no_namespaces_mean_all() {
        assert_eq!(scopes(""), [Scope::Cluster]);
    }

    #[test]
    fn a_namespace_named_twice_is_watched_once() {
        assert_eq!(scopes("b, a,b"), [Scope::Namespace("a".into()), Scope::Namespace("b".into())]);
    }
}
