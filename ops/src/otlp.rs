//! Spans to a collector, over OTLP/HTTP. The usual variables say where and how, such as `OTEL_EXPORTER_OTLP_ENDPOINT`; without an
//! endpoint nothing is collected.

use std::env;
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, SpanExporter,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// How long the last spans may take to be sent.
const PATIENCE: Duration = Duration::from_secs(2);
/// Our own crates: what libraries do is not told.
const OURS: &str = "webservice_";

/// The spans are the whole process's, as the log is.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// A layer that sends our spans, at every level; none without an endpoint.
pub(crate) fn layer<S>(program: &str) -> Result<Option<impl Layer<S> + use<S>>, ExporterBuildError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    if ![OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT]
        .iter()
        .any(|name| env::var_os(name).is_some())
    {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_http().build()?;
    let resource = Resource::builder().with_service_name(program.to_owned()).build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let tracer = PROVIDER.get_or_init(|| provider).tracer(OURS);
    let ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with(OURS));
    Ok(Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(ours)))
}

/// Sends what was not sent yet.
pub(crate) fn flush() {
    if let Some(Err(error)) = PROVIDER.get().map(|provider| provider.shutdown_with_timeout(PATIENCE)) {
        tracing::warn!("failed to send the last spans: {error}");
    }
}
