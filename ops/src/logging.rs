//! The log on standard output. Panics go there too, as one line.

use std::backtrace::Backtrace;
use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

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
    /// The filter cannot be read.
    #[error(
        "failed to read --log-level {filter:?} (or RUST_LOG): {reason}; write info, debug or TARGET=LEVEL,LEVEL"
    )]
    Filter {
        /// The filter as it was given.
        filter: String,
        /// What the parser says of it.
        reason: String,
    },
    /// Somebody set a log up before.
    #[error("failed to start the log: {0}")]
    Start(String),
}

/// Starts the log for the whole process.
///
/// # Errors
/// The filter cannot be read, or a log was started before.
pub fn init(args: &LogArgs) -> Result<(), LogError> {
    let filter = EnvFilter::builder()
        .parse(&args.log_level)
        .map_err(|error| LogError::Filter { filter: args.log_level.clone(), reason: error.to_string() })?;
    let start = |error: std::io::Error| LogError::Start(error.to_string());
    let lines = LogLines::to(std::io::stdout(), tell_dropped).map_err(start)?;
    let lines = LINES.get_or_init(|| lines);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stdout().is_terminal())
        .with_writer(|| lines.clone());
    match args.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
        }
    }
    .map_err(|error| LogError::Start(error.to_string()))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Waits until the log is written, at most for a second: for processes that end.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(Duration::from_secs(1));
    }
}

fn tell_dropped(lines: u64) {
    tracing::warn!(lines, "log lines were dropped: standard output does not keep up");
}

fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string);
    let backtrace = Backtrace::capture().to_string();
    tracing::error!(reason = info.payload_as_str(), location, backtrace, "panicked");
}
