//! Progress for a person at a terminal, or for the log of a machine.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use webservice_tests::cluster::progress::Progress;

/// A log gets a sign of life this often; a terminal shows every second.
const LOG_INTERVAL_SECONDS: u64 = 60;
const CLEAR_LINE: &str = "\r\x1b[2K";

/// Writes steps to stderr, so that stdout holds results only.
pub(crate) struct Terminal {
    interactive: bool,
}

impl Terminal {
    /// Finds out what stderr is.
    pub(crate) fn new() -> Self {
        Self { interactive: stderr().is_terminal() }
    }

    /// A line that the next one replaces.
    fn transient(&self, line: &str) {
        if self.interactive {
            let mut stderr = stderr();
            _ = write!(stderr, "{CLEAR_LINE}{line}").and_then(|()| stderr.flush());
        }
    }

    fn line(&self, line: &str) {
        let clear = if self.interactive { CLEAR_LINE } else { "" };
        _ = writeln!(stderr(), "{clear}{line}");
    }
}

impl Progress for Terminal {
    fn begin(&self, step: &str) {
        self.transient(&format!("  {step}"));
    }

    fn tick(&self, step: &str, elapsed: Duration) {
        self.transient(&format!("  {step}  {}", human(elapsed)));
        if !self.interactive && elapsed.as_secs().is_multiple_of(LOG_INTERVAL_SECONDS) {
            self.line(&format!("  {step}  {}", human(elapsed)));
        }
    }

    fn end(&self, step: &str, elapsed: Duration, success: bool) {
        let mark = if success { '✓' } else { '✗' };
        self.line(&format!("{mark} {step}  {}", human(elapsed)));
    }

    fn note(&self, text: &str) {
        self.line(&format!("  {text}"));
    }
}

/// `0.4 s`, `12 s`, `4 min 10 s`.
pub(crate) fn human(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_exact_as_a_person_needs() {
        assert_eq!(human(Duration::from_millis(420)), "0.4 s");
        assert_eq!(human(Duration::from_millis(12_900)), "12 s");
        assert_eq!(human(Duration::from_secs(250)), "4 min 10 s");
    }
}
