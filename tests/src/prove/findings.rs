//! What a proof has found, as a table.

use std::fmt;

use super::load::Tally;

/// The rows of one proof. It says how far it is while it runs, and in the end whether it holds.
pub struct Findings {
    proof: &'static str,
    rows: Vec<Row>,
}

struct Row {
    what: String,
    count: u64,
    failures: u64,
    /// What was measured, beside what it must be.
    figure: String,
    limit: String,
    holds: bool,
    /// Some of the failures in words.
    examples: Vec<String>,
}

impl Findings {
    /// None yet.
    #[must_use]
    pub fn of(proof: &'static str) -> Self {
        Self { proof, rows: Vec::new() }
    }

    /// Says how far the proof is, about ten times in all.
    pub fn progress(&self, done: usize, of: usize, tally: &Tally) {
        if done.is_multiple_of(of.div_ceil(10)) || done == of {
            println!("{}: {done} of {of}, {} calls, {} failed", self.proof, tally.calls(), tally.failures());
        }
    }

    /// Of what was tried nothing may have failed, and something must have been tried.
    pub fn none_failed(&mut self, what: &str, tally: &Tally) {
        let (count, failures) = (tally.calls(), tally.failures());
        self.rows.push(Row {
            what: what.to_owned(),
            count,
            failures,
            figure: failures.to_string(),
            limit: "0 failures".to_owned(),
            holds: failures == 0 && count > 0,
            examples: tally.examples(),
        });
    }

    /// A figure that `count` calls led to may be at most so high.
    pub fn at_most(&mut self, what: &str, count: u64, figure: f64, limit: f64) {
        self.figure(what, count, figure, format!("≤ {limit:.2}"), figure <= limit);
    }

    /// A figure that `count` calls led to must be at least so high.
    pub fn at_least(&mut self, what: &str, count: u64, figure: f64, limit: f64) {
        self.figure(what, count, figure, format!("≥ {limit:.2}"), figure >= limit);
    }

    fn figure(&mut self, what: &str, count: u64, figure: f64, limit: String, holds: bool) {
        self.rows.push(Row {
            what: what.to_owned(),
            count,
            failures: 0,
            figure: format!("{figure:.2}"),
            limit,
            holds,
            examples: Vec::new(),
        });
    }

    /// Prints the table, and fails the test where a row does not hold.
    pub fn conclude(self) {
        println!("{self}");
        let broken: Vec<_> = self.rows.iter().filter(|row| !row.holds).map(|row| &*row.what).collect();
        assert!(broken.is_empty(), "{} does not hold: {}\n{self}", self.proof, broken.join("; "));
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["what", "count", "failures", "figure", "limit", "verdict"].map(str::to_owned);
        let cells = |row: &Row| {
            let verdict = if row.holds { "holds" } else { "BROKEN" };
            let [count, failures] = [row.count, row.failures].map(|number| number.to_string());
            [row.what.clone(), count, failures, row.figure.clone(), row.limit.clone(), verdict.to_owned()]
        };
        let lines: Vec<_> = std::iter::once(header).chain(self.rows.iter().map(cells)).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        writeln!(f, "{}", self.proof)?;
        for line in &lines {
            let padded = line.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
            writeln!(f, "  {}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        for example in self.rows.iter().flat_map(|row| &row.examples) {
            writeln!(f, "  failed: {example}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(results: &[bool]) -> Tally {
        let tally = Tally::default();
        for success in results {
            tally.count(if *success { Ok(()) } else { Err(anyhow::anyhow!("connection reset")) });
        }
        tally
    }

    #[test]
    fn a_proof_without_failures_holds() {
        let mut findings = Findings::of("swaps");
        findings.none_failed("calls", &tally(&[true, true]));
        findings.at_most("p99 ratio", 2, 1.5, 2.0);
        findings.conclude();
    }

    #[test]
    #[should_panic(expected = "swaps does not hold: calls")]
    fn one_failure_breaks_it() {
        let mut findings = Findings::of("swaps");
        findings.none_failed("calls", &tally(&[true, false]));
        findings.conclude();
    }

    #[test]
    #[should_panic(expected = "does not hold: calls")]
    fn a_proof_that_tried_nothing_is_none() {
        let mut findings = Findings::of("swaps");
        findings.none_failed("calls", &tally(&[]));
        findings.conclude();
    }

    #[test]
    fn the_table_shows_figures_limits_and_what_failed() {
        let mut findings = Findings::of("swaps");
        findings.none_failed("calls", &tally(&[true, false]));
        findings.at_least("goodput", 7, 0.5, 0.9);
        assert_eq!(
            findings.to_string(),
            "swaps\n  what     count  failures  figure  limit       verdict\n  \
             calls    2      1         1       0 failures  BROKEN\n  \
             goodput  7      0         0.50    ≥ 0.90      BROKEN\n  failed: connection reset\n"
        );
    }
}
