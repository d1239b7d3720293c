//! Metrics under controller-runtime's names, so that its dashboards and alerts work, and the webhook's own facts under
//! `webservice_`. Labels are bounded: paths, status codes and rule ids, never a name or an error's text.

use std::fmt;
use std::time::Instant;

use axum::http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use webservice_api::rules::Violation;
use webservice_certs::{ServedCertificate, Status};
use webservice_ops::latest::Reads;
use webservice_ops::metrics::{register, write};

use crate::decide::Decision;

/// All metrics of the process.
#[derive(Debug)]
pub(crate) struct Metrics {
    latency: Family<WebhookLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<WebhookLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
    handshake_errors: Counter,
    file_reads: Family<FileLabels, Counter>,
    file_read_errors: Family<FileLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabels {
    webhook: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    webhook: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    webhook: &'static str,
    outcome: &'static str,
    rule: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FileLabels {
    file: &'static str,
}

/// The values of the label `file`, and the names of the files elsewhere.
pub(crate) const POLICY: &str = "policy";
/// See [`POLICY`].
pub(crate) const CLIENT_CA: &str = "client-ca";

impl Metrics {
    /// All metrics, registered with `registry`.
    pub(crate) fn register(registry: &mut Registry, certificate: ServedCertificate) -> Self {
        registry.register_collector(Box::new(CertificateCollector(certificate)));
        Self {
            latency: register(
                registry,
                "controller_runtime_webhook_latency_seconds",
                "Histogram of the latency of processing admission requests",
                Family::new_with_constructor(latency_histogram),
            ),
            in_flight: register(
                registry,
                "controller_runtime_webhook_requests_in_flight",
                "Current number of admission requests being served",
                Family::default(),
            ),
            requests: register(
                registry,
                "controller_runtime_webhook_requests",
                "Total number of admission requests by HTTP status code",
                Family::default(),
            ),
            decisions: register(
                registry,
                "webservice_admission_decisions",
                "Admission decisions: allowed once per request; denied once per rule, would-deny once per rule that only warned, defaulted once per field",
                Family::default(),
            ),
            handshake_errors: register(
                registry,
                "webservice_webhook_tls_handshake_errors",
                "Connections that did not complete a TLS handshake",
                Counter::default(),
            ),
            file_reads: register(
                registry,
                "webservice_file_reads",
                "Total number of reads of a file that may change",
                Family::default(),
            ),
            file_read_errors: register(
                registry,
                "webservice_file_read_errors",
                "Total number of reads that gave nothing usable: the last good content stays in force",
                Family::default(),
            ),
        }
    }

    /// The counters of a file that is read again and again.
    pub(crate) fn file(&self, file: &'static str) -> Reads {
        let labels = FileLabels { file };
        Reads {
            total: self.file_reads.get_or_create_owned(&labels),
            errors: self.file_read_errors.get_or_create_owned(&labels),
        }
    }

    /// The metrics of one webhook, looked up once; `webhook` is its path.
    pub(crate) fn webhook(&self, webhook: &'static str) -> WebhookMetrics {
        let labels = WebhookLabels { webhook };
        WebhookMetrics {
            webhook,
            latency: self.latency.get_or_create_owned(&labels),
            in_flight: self.in_flight.get_or_create_owned(&labels),
            requests: self.requests.clone(),
            decisions: self.decisions.clone(),
        }
    }

    pub(crate) fn handshake_errors(&self) -> Counter {
        self.handshake_errors.clone()
    }
}

/// controller-runtime's buckets: 10 ns to 1,000 s by tens.
fn latency_histogram() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 12))
}

/// The metrics of one webhook.
#[derive(Debug)]
pub(crate) struct WebhookMetrics {
    webhook: &'static str,
    latency: Histogram,
    in_flight: Gauge,
    requests: Family<RequestLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
}

impl WebhookMetrics {
    /// Counts a request as in flight until the answer is dropped.
    pub(crate) fn start(&self) -> InFlight<'_> {
        self.in_flight.inc();
        InFlight { metrics: self, started: Instant::now() }
    }

    pub(crate) fn finished(&self, code: StatusCode) {
        self.requests.get_or_create(&RequestLabels { webhook: self.webhook, code: code.as_u16() }).inc();
    }

    pub(crate) fn decided(&self, decision: &Decision) {
        match decision {
            Decision::Allow { defaulted, warnings, .. } => {
                self.count("allowed", "");
                for field in defaulted {
                    self.count("defaulted", field);
                }
                self.count_each("would-deny", warnings);
            }
            Decision::Deny { violations, warnings } => {
                self.count_each("denied", violations);
                self.count_each("would-deny", warnings);
            }
            Decision::Unreadable { .. } => self.count("denied", "unreadable"),
        }
    }

    fn count_each(&self, outcome: &'static str, violations: &[Violation]) {
        for violation in violations {
            self.count(outcome, violation.rule);
        }
    }

    fn count(&self, outcome: &'static str, rule: &'static str) {
        self.decisions.get_or_create(&DecisionLabels { webhook: self.webhook, outcome, rule }).inc();
    }
}

/// One request being served. A caller that hangs up is counted too.
pub(crate) struct InFlight<'a> {
    metrics: &'a WebhookMetrics,
    started: Instant,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
        self.metrics.latency.observe(self.started.elapsed().as_secs_f64());
    }
}

/// Facts about the certificate, asked for at each scrape.
#[derive(Debug)]
struct CertificateCollector(ServedCertificate);

impl Collector for CertificateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        let (name, help) = ("certwatcher_read_certificate", "Total number of certificate reads");
        write(&mut encoder, name, help, &ConstCounter::new(counts.total))?;
        let (name, help) = ("certwatcher_read_certificate_errors", "Total number of certificate read errors");
        write(&mut encoder, name, help, &ConstCounter::new(counts.errors))?;
        if let Status::Serving { not_after } | Status::Expired { not_after } = self.0.status() {
            let name = "webservice_certificate_expiry_timestamp_seconds";
            let help = "Unix time at which the presented certificate expires";
            write(&mut encoder, name, help, &ConstGauge::new(not_after.as_second()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use json_patch::Patch;
    use webservice_api::rules::Cause;
    use webservice_certs::Reloader;
    use webservice_ops::metrics::exposition;

    use super::*;

    fn registered() -> (Registry, Metrics) {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, Reloader::new("/does/not/exist").served());
        (registry, metrics)
    }

    fn violation(rule: &'static str) -> Violation {
        Violation { rule, field: String::new(), message: String::new(), cause: Cause::Invalid }
    }

    #[test]
    fn a_request_is_in_flight_until_it_is_answered() {
        let (registry, metrics) = registered();
        let webhook = metrics.webhook("/mutate");
        let running = webhook.start();
        let gauge = r#"controller_runtime_webhook_requests_in_flight{webhook="/mutate"}"#;
        assert!(exposition(&registry).unwrap().contains(&format!("{gauge} 1\n")));
        drop(running);
        webhook.finished(StatusCode::OK);
        let text = exposition(&registry).unwrap();
        assert!(text.contains(&format!("{gauge} 0\n")), "{text}");
        assert!(
            text.contains(r#"controller_runtime_webhook_latency_seconds_count{webhook="/mutate"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"controller_runtime_webhook_requests_total{webhook="/mutate",code="200"} 1"#),
            "{text}"
        );
    }

    #[test]
    fn decisions_are_counted_by_rule_and_outcome() {
        let (registry, metrics) = registered();
        let webhook = metrics.webhook("/validate");
        webhook.decided(&Decision::Deny {
            violations: vec![violation("a"), violation("b")],
            warnings: vec![violation("c")],
        });
        webhook.decided(&Decision::Allow {
            patch: Patch::default(),
            defaulted: vec!["spec.tier"],
            warnings: Vec::new(),
        });
        webhook.decided(&Decision::Unreadable { reason: String::new() });
        let text = exposition(&registry).unwrap();
        for (outcome, rule) in [
            ("denied", "a"),
            ("denied", "b"),
            ("would-deny", "c"),
            ("allowed", ""),
            ("defaulted", "spec.tier"),
            ("denied", "unreadable"),
        ] {
            let line = format!(
                r#"webservice_admission_decisions_total{{webhook="/validate",outcome="{outcome}",rule="{rule}"}} 1"#
            );
            assert!(text.contains(&line), "{line} is missing in {text}");
        }
    }

    #[test]
    fn reads_of_the_certificate_are_counted_before_there_is_one() {
        let text = exposition(&registered().0).unwrap();
        assert!(text.contains("certwatcher_read_certificate_total 0\n"), "{text}");
        assert!(text.contains("certwatcher_read_certificate_errors_total 0\n"), "{text}");
        assert!(!text.contains("expiry"), "{text}");
    }
}
