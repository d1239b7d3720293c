//! `/metrics`, in the Prometheus text format, and what every process tells about itself.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use rustix::process::{Resource, getrlimit};

/// A registry that has the metrics of every process: which build it is, and the usual `process_*`.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("webservice_build", "1; the label tells the version", build);
    registry.register_collector(Box::new(Process));
    registry
}

/// Registers `metric` and gives it back. Counters are named without `_total`, which the format appends.
pub fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Writes one metric without labels whose value has its home elsewhere: for collectors.
///
/// # Errors
/// The encoder cannot be written to.
pub fn write(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// The route, for the metrics of `registry`.
pub fn router(registry: Registry) -> Router {
    let registry = Arc::new(registry);
    Router::new().route("/metrics", get(move || std::future::ready(scrape(&registry))))
}

fn scrape(registry: &Registry) -> Response {
    match exposition(registry) {
        Ok(text) => ([(CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("failed to write the metrics: {error}\n"))
            .into_response(),
    }
}

/// Everything in the Prometheus text format, version 0.0.4: every scraper reads it without being asked which it prefers.
///
/// # Errors
/// A collector fails.
pub fn exposition(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_text::encode(&mut text, registry)?;
    Ok(text)
}

/// The usual `process_*` metrics, read from `/proc/self` when they are asked for; see proc(5).
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(stat) = std::fs::read_to_string("/proc/self/stat").ok() else { return Ok(()) };
        // The second field is the program's name in parentheses, and may hold anything: count from behind it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field =
            |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);

        let cpu = ConstCounter::new(seconds(field(14) + field(15)));
        write(&mut encoder, "process_cpu_seconds", "CPU time used, in seconds", &cpu)?;
        let page = rustix::param::page_size() as u64;
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory, in bytes", field(24) * page),
            ("process_virtual_memory_bytes", "Virtual memory, in bytes", field(23)),
            ("process_threads", "Threads of the process", field(20)),
            ("process_open_fds", "Open file descriptors", open_files()),
            ("process_max_fds", "Most file descriptors that may be open", most_files()),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            write(&mut encoder, name, help, &gauge)?;
        }
        let started = ConstGauge::new(boot_time() + seconds(field(22)));
        write(&mut encoder, "process_start_time_seconds", "Start of the process, in Unix time", &started)
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ticks")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// When the machine was started, in Unix time.
fn boot_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or_default()
}

fn most_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use prometheus_client::metrics::counter::Counter;
    use tower::ServiceExt;

    use super::*;

    #[test]
    fn a_process_tells_its_memory_and_files() {
        let text = exposition(&registry()).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(name)).expect(name);
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 100_000.0, "{text}");
        assert!(value("process_open_fds ") > 2.0, "{text}");
        assert!(value("process_max_fds ") >= value("process_open_fds "), "{text}");
        assert!(value("process_cpu_seconds_total ") >= 0.0, "{text}");
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        let age = now - value("process_start_time_seconds ");
        assert!((-2.0..3600.0).contains(&age), "{age}: {text}");
    }

    #[test]
    fn the_end_of_a_counters_name_stands_in_type_and_sample_alike() {
        let mut registry = Registry::default();
        register(&mut registry, "requests", "Requests", Counter::<u64>::default()).inc();
        assert_eq!(
            exposition(&registry).unwrap(),
            "# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total 1\n"
        );
    }

    #[tokio::test]
    async fn the_content_type_names_the_format() {
        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        let response = router(registry()).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    }
}
