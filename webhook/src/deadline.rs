//! How long an answer may take: the API server says in each call how long it will wait (`?timeout=5s`).

use std::time::Duration;

use axum::http::Uri;
use webservice_ops::args::positive_duration;

/// What the API server waits where it does not say: the API's own default.
const DEFAULT: Duration = Duration::from_secs(10);
/// No webhook may take longer, whatever the caller says.
const LONGEST: Duration = Duration::from_secs(30);

/// What is left for the answer to a call of `uri`, from the moment its header is here: the caller's clock was started earlier,
/// so a tenth is kept for the way. A timeout that cannot be read is no reason to fail a write: the default applies.
pub(crate) fn allowance(uri: &Uri) -> Duration {
    let timeout = uri.query().and_then(timeout).unwrap_or(DEFAULT).min(LONGEST);
    timeout * 9 / 10
}

/// The `timeout` of a query, a Go duration.
fn timeout(query: &str) -> Option<Duration> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("timeout="))?;
    positive_duration(value).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/mutate?timeout=5s", 4500)]
    #[case("/mutate?timeout=10s", 9000)]
    #[case("/mutate?timeout=1m0s", 27_000)]
    #[case("/mutate?timeout=500ms", 450)]
    #[case("/mutate?timeout=4.5s", 4050)]
    #[case("/mutate?a=b&timeout=1s&c", 900)]
    #[case("/mutate", 9000)]
    #[case("/mutate?timeout=", 9000)]
    #[case("/mutate?timeout=0s", 9000)]
    #[case("/mutate?timeout=-5s", 9000)]
    #[case("/mutate?timeout=soon", 9000)]
    #[case("/mutate?timeout=99999h", 27_000)]
    fn a_tenth_of_the_callers_timeout_is_kept(#[case] uri: &str, #[case] milliseconds: u64) {
        assert_eq!(allowance(&uri.parse().unwrap()), Duration::from_millis(milliseconds));
    }
}
