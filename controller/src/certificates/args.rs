//! The flags about the webhook: how it is registered, and who makes its certificate.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use k8s_openapi::jiff::SignedDuration;
use webservice_ops::args::duration;

/// The shortest life of a certificate. Its beginning lies five minutes in the past, for clocks that are behind, and it is renewed when a third
/// is left: a much shorter one would be due for renewal at once.
const SHORTEST_LIFE: SignedDuration = SignedDuration::from_mins(10);

/// How the webhook is registered, and who makes its certificate.
///
/// With `--ca-secret`, `--tls-secret` and `--webhook-service` the leading controller makes it; with `--ca-bundle` it only tells the API
/// server whom to trust; with neither, somebody else does both.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookArgs {
    /// Name that the webhook's mutating and validating configuration share. The process is ready when the API server calls
    /// the webhook
    #[arg(long, value_name = "NAME")]
    pub webhook_configuration: Option<String>,

    /// Service of the webhook, in this process's namespace: the certificate is for its names
    #[arg(long, value_name = "NAME", requires = "ca_secret")]
    pub webhook_service: Option<String>,

    /// Secret that the CA is kept in
    #[arg(long, value_name = "NAME", requires_all = ["tls_secret", "webhook_service", "webhook_configuration"])]
    pub ca_secret: Option<String>,

    /// Secret that the webhook's certificate is kept in
    #[arg(long, value_name = "NAME", requires = "ca_secret")]
    pub tls_secret: Option<String>,

    /// Life of the CA. Another takes over, with overlap, when a third is left
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = lifetime)]
    pub ca_lifetime: SignedDuration,

    /// Life of the webhook's certificate. Another takes over when a third is left
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = lifetime)]
    pub leaf_lifetime: SignedDuration,

    /// How long API servers may take to notice a new CA: nothing signed by it is served before
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub ca_overlap: Duration,

    /// File with the CAs (PEM) that the API server is to trust, where the certificate is made by somebody else
    #[arg(long, value_name = "FILE", requires = "webhook_configuration", conflicts_with = "ca_secret")]
    pub ca_bundle: Option<PathBuf>,
}

fn lifetime(text: &str) -> Result<SignedDuration, String> {
    let life = duration(text).ok().and_then(|life| SignedDuration::try_from(life).ok());
    life.filter(|life| *life >= SHORTEST_LIFE)
        .ok_or_else(|| format!("write at least {} minutes, such as 720h", SHORTEST_LIFE.as_mins()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        webhook: WebhookArgs,
    }

    fn parse(flags: &[&str]) -> Result<WebhookArgs, ErrorKind> {
        let parsed = Command::try_parse_from(std::iter::once(&"controller").chain(flags));
        parsed.map(|command| command.webhook).map_err(|error| error.kind())
    }

    const SELF_MANAGED: [&str; 4] =
        ["--webhook-configuration=a", "--webhook-service=b", "--ca-secret=c", "--tls-secret=d"];

    #[test]
    fn each_mode_is_complete_or_refused() {
        parse(&[]).unwrap();
        parse(&SELF_MANAGED).unwrap();
        parse(&["--webhook-configuration=a"]).unwrap();
        parse(&["--webhook-configuration=a", "--ca-bundle=e"]).unwrap();
        for left_out in 0..SELF_MANAGED.len() {
            let mut flags = SELF_MANAGED.to_vec();
            flags.remove(left_out);
            assert_eq!(parse(&flags).unwrap_err(), ErrorKind::MissingRequiredArgument, "{flags:?}");
        }
        assert_eq!(parse(&["--ca-bundle=e"]).unwrap_err(), ErrorKind::MissingRequiredArgument);
        let both = [&SELF_MANAGED[..], &["--ca-bundle=e"]].concat();
        assert_eq!(parse(&both).unwrap_err(), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn a_life_that_would_be_renewed_without_end_is_refused() {
        for life in ["9m", "0s", "-1h", "soon"] {
            let flag = format!("--leaf-lifetime={life}");
            assert_eq!(parse(&[&flag]).unwrap_err(), ErrorKind::ValueValidation, "{life}");
        }
        assert_eq!(parse(&["--leaf-lifetime=10m"]).unwrap().leaf_lifetime, SHORTEST_LIFE);
    }
}
