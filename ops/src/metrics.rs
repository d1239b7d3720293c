//! `/metrics`, and what every process tells about itself.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The media type of the `OpenMetrics` text format, version 1.0.0.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The route, for the metrics of `registry`.
pub fn router(registry: Registry) -> Router {
    let registry = Arc::new(registry);
    Router::new().route("/metrics", get(move || std::future::ready(exposition(&registry))))
}

fn exposition(registry: &Registry) -> Response {
    let mut body = String::new();
    match text::encode(&mut body, registry) {
        Ok(()) => ([(CONTENT_TYPE, OPENMETRICS)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("failed to write the metrics: {error}\n"))
            .into_response(),
    }
}

/// The usual `process_*` metrics, read from `/proc/self` when they are asked for.
#[derive(Debug)]
pub struct Process;

/// Clock ticks per second and bytes per page of Linux on the platforms that Kubernetes runs on; fixed in its ABI, but for
/// pages on some arm64 kernels.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE: u64 = 4096;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(stat) = std::fs::read_to_string("/proc/self/stat").ok() else { return Ok(()) };
        // The second field is the program's name in parentheses, and may hold anything: count from behind it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field =
            |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let seconds = |ticks: u64| f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)) / TICKS_PER_SECOND;

        let cpu = ConstCounter::new(seconds(field(14) + field(15)));
        let name = "process_cpu_seconds";
        cpu.encode(encoder.encode_descriptor(name, "CPU time used, in seconds", None, cpu.metric_type())?)?;
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory, in bytes", field(24) * PAGE),
            ("process_virtual_memory_bytes", "Virtual memory, in bytes", field(23)),
            ("process_threads", "Threads", field(20)),
            ("process_open_fds", "Open file descriptors", open_files()),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tells_its_memory_and_files() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(name)).expect(name);
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 100_000.0, "{text}");
        assert!(value("process_open_fds") > 2.0, "{text}");
        assert!(value("process_cpu_seconds_total") >= 0.0, "{text}");
    }
}
