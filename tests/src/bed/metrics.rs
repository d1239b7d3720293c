//! Metrics in the text formats of Prometheus and `OpenMetrics`, as far as tests read them.

use std::collections::BTreeMap;

/// The samples of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Vec<Sample>);

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Reads an exposition. Lines that are no samples are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// The sum of the samples of this name that carry these labels, among others; they count things. Zero where there are
    /// none.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nothing is counted up to 2^53"
    )]
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let carries = |sample: &Sample| {
            labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|found| found == value))
        };
        let samples = self.0.iter().filter(|sample| sample.name == name && carries(sample));
        samples.map(|sample| sample.value).sum::<f64>() as u64
    }
}

/// `name{label="value",…} value`, see <https://prometheus.io/docs/instrumenting/exposition_formats/>. Values of labels
/// here hold no quotes and no braces.
fn sample(line: &str) -> Option<Sample> {
    let (series, value) = match line.rsplit_once('}') {
        Some((series, rest)) => (series, rest.split_whitespace().next()?),
        None => line.split_once(' ')?,
    };
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let pair = |pair: &str| {
        let (label, value) = pair.split_once('=')?;
        Some((label.trim_matches(',').to_owned(), value.trim_matches('"').to_owned()))
    };
    let labels = labels.split_inclusive("\",").filter_map(|text| pair(text.trim_end_matches(','))).collect();
    Some(Sample { name: name.to_owned(), labels, value: value.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP requests Requests.\n\
        requests_total{method=\"GET\",code=\"200\"} 3\n\
        requests_total{method=\"GET\",code=\"<error>\"} 2\n\
        depth 7\n\
        # EOF\n";

    #[test]
    fn samples_are_summed_over_the_labels_that_were_not_asked_for() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(metrics.count("requests_total", &[("method", "GET")]), 5);
        assert_eq!(metrics.count("requests_total", &[("method", "GET"), ("code", "200")]), 3);
        assert_eq!(metrics.count("depth", &[]), 7);
    }

    #[test]
    fn what_was_never_counted_is_zero() {
        assert_eq!(Metrics::parse(TEXT).count("errors_total", &[]), 0);
    }
}
