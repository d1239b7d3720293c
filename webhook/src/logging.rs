//! The log on standard output. Panics go there too, as one line.

use std::backtrace::Backtrace;
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

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
pub fn init(config: &Config) -> Result<(), LogError> {
    let filter = EnvFilter::builder()
        .parse(&config.log_level)
        .map_err(|error| LogError::Filter { filter: config.log_level.clone(), reason: error.to_string() })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(io::stdout().is_terminal());
    match config.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
        }
    }
    .map_err(|error| LogError::Start(error.to_string()))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string);
    let backtrace = Backtrace::capture().to_string();
    tracing::error!(reason = info.payload_as_str(), location, backtrace, "panicked");
}
