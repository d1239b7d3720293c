//! Command line and environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use webservice_ops::args::{count, duration, positive_duration};
use webservice_ops::debug::DebugArgs;
use webservice_ops::logging::LogArgs;
use webservice_ops::server::MAX_CONNECTIONS;

/// Defaults and validates WebService objects for the Kubernetes API server.
///
/// Serves admission reviews over HTTPS, probes (/livez, /readyz) and Prometheus metrics (/metrics) over HTTP. It calls
/// nobody and needs no account. The certificate may arrive later and may change at any time.
#[derive(Debug, Clone, Parser)]
#[command(name = "webservice-webhook", version, args_override_self = true)]
pub struct Config {
    /// Where admission reviews are served. The default takes IPv4 and IPv6, and IPv4 alone where IPv6 is missing. Port 0: any
    #[arg(long, env = "WEBHOOK_HTTPS_ADDRESS", value_name = "ADDRESS:PORT", default_value = "[::]:9443")]
    pub https_address: SocketAddr,

    /// Where /livez and /readyz are served
    #[arg(long, env = "WEBHOOK_PROBE_ADDRESS", value_name = "ADDRESS:PORT", default_value = "[::]:8081")]
    pub probe_address: SocketAddr,

    /// Where /metrics is served
    #[arg(long, env = "WEBHOOK_METRICS_ADDRESS", value_name = "ADDRESS:PORT", default_value = "[::]:8080")]
    pub metrics_address: SocketAddr,

    /// Directory with tls.crt and tls.key, usually a mounted Secret
    #[arg(long, env = "WEBHOOK_CERT_DIR", value_name = "DIRECTORY", default_value = "/etc/webhook/tls")]
    pub cert_dir: PathBuf,

    /// How often the certificate, the policy and the client CA are read again
    #[arg(long, env = "WEBHOOK_CERT_INTERVAL", value_name = "DURATION", default_value = "1s", value_parser = positive_duration)]
    pub cert_interval: Duration,

    /// File with the policy (YAML), usually of a mounted ConfigMap. Without it no limits are set beyond what makes an object work
    ///
    /// The file may come later and change at any time: until there is a usable policy the webhook is not ready and answers no
    /// review, and a change that cannot be used leaves the last good one in force.
    #[arg(long, env = "WEBHOOK_POLICY", value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// User whose updates are not checked where they leave the spec alone, usually the controller's account. Repeatable
    #[arg(long = "exempt-user", env = "WEBHOOK_EXEMPT_USERS", value_name = "NAME", value_delimiter = ',')]
    pub exempt_users: Vec<String>,

    /// File with the CA certificates (PEM) that vouch for the API server. With it, clients must present a certificate
    #[arg(long, env = "WEBHOOK_CLIENT_CA", value_name = "FILE")]
    pub client_ca: Option<PathBuf>,

    /// Name that a client's certificate must carry, as common or alternative name. Repeatable; without it any name will do
    #[arg(
        long = "client-name",
        env = "WEBHOOK_CLIENT_NAMES",
        value_name = "NAME",
        value_delimiter = ',',
        requires = "client_ca"
    )]
    pub client_names: Vec<String>,

    /// Most connections at a time, on each address; more wait to be accepted
    #[arg(long, env = "WEBHOOK_MAX_CONNECTIONS", value_name = "COUNT", default_value_t = MAX_CONNECTIONS, value_parser = count)]
    pub max_connections: usize,

    /// Most reviews at a time; more are asked to come back in a second (429)
    #[arg(long, env = "WEBHOOK_MAX_IN_FLIGHT", value_name = "COUNT", default_value_t = 256, value_parser = count)]
    pub max_in_flight: usize,

    /// How long reviews are served as before after SIGTERM: longer than it takes until nobody is sent here any more
    #[arg(long, env = "WEBHOOK_SHUTDOWN_LAME_DUCK", value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub shutdown_lame_duck: Duration,

    /// How long open connections may finish after that. Both together must be shorter than the pod's grace period
    #[arg(long, env = "WEBHOOK_SHUTDOWN_GRACE", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub shutdown_grace: Duration,

    /// The debug endpoints
    #[command(flatten)]
    pub debug: DebugArgs,

    /// The log
    #[command(flatten)]
    pub log: LogArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(args: &[&str]) -> Result<Config, String> {
        let args = std::iter::once(&"webservice-webhook").chain(args);
        Config::try_parse_from(args).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Config::command().debug_assert();
    }

    #[test]
    fn of_a_repeated_flag_the_last_one_counts() {
        let config = parse(&["--shutdown-grace=1s", "--shutdown-grace=2s"]).unwrap();
        assert_eq!(config.shutdown_grace, Duration::from_secs(2));
    }

    #[test]
    fn names_can_be_given_one_by_one_or_together() {
        let config = parse(&["--exempt-user=a", "--exempt-user=b,c"]).unwrap();
        assert_eq!(config.exempt_users, ["a", "b", "c"]);
    }

    #[test]
    fn names_of_clients_without_a_ca_would_be_checked_by_nobody_and_are_refused() {
        assert!(parse(&["--client-name=kube-apiserver"]).unwrap_err().contains("--client-ca"));
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_flag_and_a_remedy() {
        for (flag, value, remedy) in [
            ("--shutdown-grace", "soon", "5s"),
            ("--shutdown-grace", "-5s", "5s"),
            ("--cert-interval", "0s", "above zero"),
            ("--max-in-flight", "0", "from 1"),
            ("--https-address", "9443", "socket address"),
            ("--log-format", "xml", "json"),
        ] {
            let error = parse(&[&format!("{flag}={value}")]).unwrap_err();
            assert!(error.contains(flag) && error.contains(remedy), "{error}");
        }
    }
}
