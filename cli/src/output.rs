//! How answers are printed.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::Value;

use crate::error::Error;

/// How an answer is printed.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// How a command ended, the worse the greater; the exit code.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// Done, and nothing waits.
    Converged,
    /// Something waits or is refused.
    NotConverged,
    /// Something failed.
    Failed,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Converged => 0.into(),
            Verdict::Failed => 1.into(),
            Verdict::NotConverged => 3.into(),
        }
    }
}

/// What a command has to say.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    /// For people; ends with a line break.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Value,
    /// What could not be done, a sentence each, for standard error.
    pub(crate) faults: Vec<String>,
    pub(crate) verdict: Verdict,
}

/// Prints `answer` and gives its verdict.
pub(crate) fn print(answer: &Answer, format: Format) -> Result<Verdict, Error> {
    let failed = |reason: String| Error::Output { reason };
    let text = match format {
        Format::Table => answer.text.clone(),
        Format::Json => {
            serde_json::to_string_pretty(&answer.json).map_err(|error| failed(error.to_string()))? + "\n"
        }
        Format::Yaml => serde_saphyr::to_string(&answer.json).map_err(|error| failed(error.to_string()))?,
    };
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        // Whoever reads has seen enough, such as `head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => return Err(failed(error.to_string())),
    }
    answer.faults.iter().for_each(|fault| complain(fault));
    Ok(answer.verdict)
}

/// Tells on standard error what went wrong.
pub(crate) fn complain(fault: &dyn Display) {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "error: {fault}");
}

/// Lines as one text.
pub(crate) fn text(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Rows in columns that are as wide as their widest cell, a line each; nothing where there is no row.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let header = header.map(ToOwned::to_owned);
    let width = |column: usize| rows.iter().chain([&header]).map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let line = |row: &[String; N]| {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("   ").trim_end().to_owned()
    };
    std::iter::once(&header).chain(rows).map(line).collect()
}

/// What was found, and below it, set off, what follows.
pub(crate) fn concluded(mut found: Vec<String>, follows: String) -> String {
    if !found.is_empty() {
        found.push(String::new());
    }
    text(found.into_iter().chain([follows]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_have_no_end_of_blanks() {
        let rows = [
            ["a".to_owned(), "Größe".to_owned(), "x".to_owned()],
            ["billing".to_owned(), "y".to_owned(), String::new()],
        ];
        assert_eq!(
            text(table(["NAME", "B", "C"], &rows)),
            "NAME      B       C\na         Größe   x\nbilling   y\n"
        );
    }

    #[test]
    fn yaml_keeps_a_string_that_looks_like_a_number_a_string() {
        let yaml =
            serde_saphyr::to_string(&serde_json::json!({"resourceVersion": "42", "replicas": 3})).unwrap();
        let back: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(back, serde_json::json!({"resourceVersion": "42", "replicas": 3}));
    }
}
