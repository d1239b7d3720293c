//! The log on standard output, with a filter that can be changed while the process runs. Panics go there too, as one line.

use std::backtrace::Backtrace;
use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::log_lines::LogLines;

/// The client library calls every answer above 399 an error, each time it comes; who has sent the request knows better.
const DEFAULT_FILTER: &str = "info,kube_client=off,kube_runtime=off";

/// The log of this process, once it is started.
static LINES: OnceLock<LogLines> = OnceLock::new();

/// Flags of the log.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Format of the log on standard output
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug, trace, or TARGET=LEVEL,LEVEL
    #[arg(long, env = "RUST_LOG", value_name = "FILTER", default_value = DEFAULT_FILTER)]
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

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The flag or the variable cannot be read.
    #[error("failed to read --log-level (or RUST_LOG): {0}")]
    Flag(#[from] FilterError),
    /// Somebody set a log up before.
    #[error("failed to start the log: {0}")]
    Start(String),
    /// The variables that say where spans go cannot be used.
    #[cfg(feature = "otlp")]
    #[error("failed to set up the collector of spans: {0}; see the variables OTEL_EXPORTER_OTLP_…")]
    Spans(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// Why a filter was not put in force.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It cannot be read.
    #[error("failed to read the log filter {filter:?}: {reason}; write info, debug or TARGET=LEVEL,LEVEL")]
    Unreadable {
        /// The filter as it was given.
        filter: String,
        /// What is wrong with it.
        reason: String,
    },
    /// [`init`] was not called.
    #[error("failed to change the log filter: the log was not started")]
    NoLog,
}

/// The log is the whole process's, and so is its filter.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts the log for the whole process, and what sends the spans of `program` to a collector if there is one.
///
/// # Errors
/// The filter or the address of the collector cannot be read, or a log was started before.
#[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "spans are told by program"))]
pub fn init(program: &str, args: &LogArgs) -> Result<(), LogError> {
    let (filter, handle) = reload::Layer::new(parse(&args.log_level)?);
    let lines =
        LogLines::to(std::io::stdout(), tell_dropped).map_err(|error| LogError::Start(error.to_string()))?;
    let lines = LINES.get_or_init(|| lines);
    let log = tracing_subscriber::registry().with(layer(args.log_format, lines).with_filter(filter));
    #[cfg(feature = "otlp")]
    let log = log.with(crate::otlp::layer(program)?);
    log.try_init().map_err(|error| LogError::Start(error.to_string()))?;
    // The subscriber can be set once only, so this one was not set before either.
    let _ = FILTER.set(handle);
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Sends what was not sent yet, then waits until the log is written, at most for a second: for processes that end.
pub fn flush() {
    #[cfg(feature = "otlp")]
    crate::otlp::flush();
    if let Some(lines) = LINES.get() {
        lines.flush(Duration::from_secs(1));
    }
}

fn tell_dropped(lines: u64) {
    tracing::warn!(lines, "log lines were dropped: standard output does not keep up");
}

/// The filter in force; none before [`init`].
#[must_use]
pub fn filter() -> Option<String> {
    FILTER.get()?.with_current(ToString::to_string).ok()
}

/// Puts another filter in force, in the place of the whole present one.
///
/// # Errors
/// It cannot be read, and the present one stays; or there is no log.
pub fn set_filter(text: &str) -> Result<(), FilterError> {
    let filter = parse(text)?;
    FILTER.get().and_then(|handle| handle.reload(filter).ok()).ok_or(FilterError::NoLog)
}

fn parse(text: &str) -> Result<EnvFilter, FilterError> {
    let unreadable = |reason| FilterError::Unreadable { filter: text.to_owned(), reason };
    if text.trim().is_empty() {
        return Err(unreadable("it is empty".to_owned()));
    }
    EnvFilter::builder().parse(text).map_err(|error| unreadable(error.to_string()))
}

fn layer(format: LogFormat, lines: &'static LogLines) -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = fmt::layer().with_ansi(std::io::stdout().is_terminal()).with_writer(|| lines.clone());
    match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => {
            layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
    }
}

fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string);
    let backtrace = Backtrace::capture().to_string();
    tracing::error!(reason = info.payload_as_str(), location, backtrace, "panicked");
}
