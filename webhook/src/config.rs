//! Command line and environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use jiff::SignedDuration;

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

    /// How often the certificate is read again
    #[arg(long, env = "WEBHOOK_CERT_INTERVAL", value_name = "DURATION", default_value = "1s", value_parser = positive)]
    pub cert_interval: Duration,

    /// Most connections at a time, on each address; more wait to be accepted
    #[arg(long, env = "WEBHOOK_MAX_CONNECTIONS", value_name = "COUNT", default_value_t = 2048, value_parser = count)]
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

    /// Format of the log on standard output
    #[arg(long, env = "WEBHOOK_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug, trace, or TARGET=LEVEL,LEVEL
    #[arg(long, env = "RUST_LOG", value_name = "FILTER", default_value = "info")]
    pub log_level: String,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object per line, for collectors.
    Json,
}

/// A length of time as people write it: `5s`, `500ms`, `1m 30s`, `0s`.
fn duration(text: &str) -> Result<Duration, String> {
    let remedy = "write a length of time such as 5s, 500ms or 1m30s";
    let signed: SignedDuration = text.parse().map_err(|_| remedy.to_owned())?;
    Duration::try_from(signed).map_err(|_| remedy.to_owned())
}

fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("write a length of time above zero, such as 1s".to_owned()),
        positive => Ok(positive),
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("write a whole number from 1 to 1000000".to_owned()),
    }
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
    fn lengths_of_time_are_written_as_people_write_them() {
        let config = parse(&["--shutdown-lame-duck", "1m30s", "--shutdown-grace", "0s"]).unwrap();
        assert_eq!(config.shutdown_lame_duck, Duration::from_secs(90));
        assert_eq!(config.shutdown_grace, Duration::ZERO);
    }

    #[test]
    fn of_a_repeated_flag_the_last_one_counts() {
        let config = parse(&["--shutdown-grace=1s", "--shutdown-grace=2s"]).unwrap();
        assert_eq!(config.shutdown_grace, Duration::from_secs(2));
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
