//! What a bench prints and keeps: one row per goal, with a verdict.

use std::fmt::{self, Write};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde::Serialize;

use super::machine::{Disturbance, Machine};
use super::samples::Samples;
use super::thresholds::{Better, Goal, Judged, Unit};

/// One goal and what was measured for it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was promised.
    pub goal: Goal,
    /// Our figures, one a round.
    pub ours: Samples,
    /// The figures of what ours are compared with, in the same rounds.
    pub limit: Option<Samples>,
    /// What the machine did meanwhile.
    pub disturbance: Option<Disturbance>,
    /// What is compared with the lines.
    pub judged: Samples,
    /// How that came out.
    pub verdict: Verdict,
}

/// On which side of its lines a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The median meets the target.
    Target,
    /// The median meets the floor.
    Floor,
    /// The median misses the floor, but a quarter of the rounds or more meets it: measure again.
    Unclear,
    /// The whole interquartile range is on the wrong side of the floor.
    Failed,
    /// There is no floor.
    Unjudged,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Target => "target",
            Self::Floor => "floor",
            Self::Unclear => "unclear",
            Self::Failed => "FAILED",
            Self::Unjudged => "–",
        })
    }
}

impl Row {
    /// Figures that are judged by themselves.
    #[must_use]
    pub fn absolute(goal: Goal, ours: Samples) -> Self {
        Self::new(goal, ours.clone(), None, ours)
    }

    /// Figures that are judged by their ratio to those of the echo server.
    #[must_use]
    pub fn beside_echo(goal: Goal, arms: [Samples; 2]) -> Self {
        Self::beside(goal, arms)
    }

    /// Figures that are judged by their ratio to those of the second, which had its turn in the same rounds.
    #[must_use]
    pub fn beside(goal: Goal, [ours, limit]: [Samples; 2]) -> Self {
        let judged = ours.ratios(&limit);
        Self::new(goal, ours, Some(limit), judged)
    }

    /// Figures of which the one at this quantile is judged, since the rare bad one is what matters.
    #[must_use]
    pub fn at_quantile(goal: Goal, part: f64, ours: Samples) -> Self {
        let judged = [ours.quantile(part)].into_iter().collect();
        Self::new(goal, ours, None, judged)
    }

    fn new(goal: Goal, ours: Samples, limit: Option<Samples>, judged: Samples) -> Self {
        let verdict = goal.verdict(&judged);
        Self { goal, ours, limit, disturbance: None, judged, verdict }
    }

    fn cells(&self) -> [String; 8] {
        let Self { goal, ours, limit, judged, verdict, .. } = self;
        let figure = |samples: &Samples| goal.unit.write(samples.median());
        let line = |value: f64| {
            if value.is_infinite() {
                return dash();
            }
            format!("{} {}", goal.better.sign(), goal.write_judged(value))
        };
        let ratio = || goal.write_judged(judged.median());
        // What is a ratio ranges as one; of other figures all are shown, whichever is judged.
        let (ours, ranging) = if goal.judged == Judged::Figure { (judged, ours) } else { (ours, judged) };
        [
            figure(ours),
            limit.as_ref().map_or_else(dash, figure),
            if goal.judged == Judged::Figure { dash() } else { ratio() },
            format!(
                "{}–{}",
                goal.write_judged(ranging.quantile(0.0)),
                goal.write_judged(ranging.quantile(1.0))
            ),
            line(goal.floor),
            line(goal.target),
            verdict.to_string(),
            goal.unit.name().to_owned(),
        ]
    }
}

fn dash() -> String {
    "–".to_owned()
}

impl Goal {
    /// A floor fails only when the whole interquartile range misses it: machines have bad moments.
    fn verdict(&self, judged: &Samples) -> Verdict {
        let (meets, best_quartile) = match self.better {
            Better::Higher => (f64::ge as fn(&f64, &f64) -> bool, 0.75),
            Better::Lower => (f64::le as _, 0.25),
        };
        if self.floor.is_infinite() {
            Verdict::Unjudged
        } else if meets(&judged.median(), &self.target) {
            Verdict::Target
        } else if meets(&judged.median(), &self.floor) {
            Verdict::Floor
        } else if meets(&judged.quantile(best_quartile), &self.floor) {
            Verdict::Unclear
        } else {
            Verdict::Failed
        }
    }

    fn write_judged(&self, value: f64) -> String {
        match self.judged {
            Judged::RatioToEcho | Judged::RatioToRawLoop => format!("{value:.2}"),
            Judged::Figure => self.unit.write(value),
        }
    }
}

impl Better {
    const fn sign(self) -> char {
        match self {
            Self::Higher => '≥',
            Self::Lower => '≤',
        }
    }
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::CallsPerCpuSecond => "calls/CPU-s",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Megabytes => "MB",
            Self::Kilobytes => "KB",
            Self::Seconds => "s",
            Self::CpuSeconds => "CPU-s",
            Self::PercentOfCore => "% of a core",
            Self::Times => "times",
            Self::PerSecond => "1/s",
            Self::Ratio => "ratio",
        }
    }

    fn write(self, value: f64) -> String {
        match self {
            Self::CallsPerCpuSecond => format!("{value:.0}"),
            Self::Microseconds | Self::Milliseconds | Self::Megabytes => format!("{value:.1}"),
            Self::Kilobytes | Self::Seconds | Self::CpuSeconds | Self::PerSecond => format!("{value:.2}"),
            Self::Times if value.fract() == 0.0 => format!("{value:.0}"),
            Self::Times | Self::PercentOfCore | Self::Ratio => format!("{value:.3}"),
        }
    }
}

/// The result of a bench.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What was measured, such as `webhook`.
    pub bench: &'static str,
    /// When it began.
    pub began: Timestamp,
    /// Whether it was the short form, whose figures say little.
    pub quick: bool,
    /// Where.
    pub machine: Machine,
    /// One for each goal.
    pub rows: Vec<Row>,
}

impl Table {
    /// Without rows, begun now.
    #[must_use]
    pub fn new(bench: &'static str, quick: bool) -> Self {
        Self { bench, began: Timestamp::now(), quick, machine: Machine::this(), rows: Vec::new() }
    }

    /// Writes the raw figures to `DIRECTORY/BENCH-TIME.json` and `DIRECTORY/BENCH-latest.json`, and gives the former.
    pub fn save(&self, directory: &Path) -> Result<PathBuf> {
        let json = serde_json::to_string_pretty(self).context("failed to write down the figures")?;
        let path = |suffix: &str| directory.join(format!("{}-{suffix}.json", self.bench));
        let write = |path: &Path| {
            fs::write(path, &json).with_context(|| format!("failed to write {}", path.display()))
        };
        fs::create_dir_all(directory).with_context(|| format!("failed to create {}", directory.display()))?;
        let kept = path(&self.began.strftime("%Y%m%dT%H%M%SZ").to_string());
        write(&kept)?;
        write(&path("latest"))?;
        Ok(kept)
    }

    /// Fails where a floor does, and says which.
    pub fn check(&self) -> Result<()> {
        let failed: Vec<_> = self.rows.iter().filter(|row| row.verdict == Verdict::Failed).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let names = failed.iter().map(|row| format!("{} ({})", row.goal.id, row.goal.what));
        bail!("below the floor: {}", names.collect::<Vec<_>>().join("; "))
    }
}

const HEADER: [&str; 10] =
    ["id", "what", "ours", "limit", "ratio", "range", "floor", "target", "verdict", "unit of ours"];

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let mut line = vec![row.goal.id.to_owned(), row.goal.what.to_owned()];
            line.extend(row.cells());
            lines.push(line);
        }
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..HEADER.len()).map(width).collect();
        for line in &lines {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // Figures are easier to compare when their ends stand below each other.
                if (2..=5).contains(&column) {
                    write!(text, "{cell:>width$}  ")?;
                } else {
                    write!(text, "{cell:<width$}  ")?;
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        let Machine { processor, cores, kernel } = &self.machine;
        let limit = self.rows.iter().find_map(|row| row.goal.judged.limit()).unwrap_or("none");
        writeln!(f, "limit: {limit}; range: of the ratios, or of ours where there is none")?;
        writeln!(f, "{processor}, {cores} cores, Linux {kernel}; {}", self.disturbance())?;
        if self.quick {
            writeln!(f, "quick: too few rounds and objects to judge by")?;
        }
        Ok(())
    }
}

impl Table {
    fn disturbance(&self) -> String {
        let worst = |value: fn(&Disturbance) -> f64| {
            self.rows.iter().filter_map(|row| row.disturbance.as_ref()).map(value).fold(0.0, f64::max)
        };
        let (steal, load) = (worst(|seen| seen.steal_percent), worst(|seen| seen.load));
        format!("at most {steal:.1} % steal, load {load:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::thresholds::{C4, C13, W1, W8_IDLE};
    use super::*;

    fn beside_echo(ours: &[f64]) -> Row {
        let echo = ours.iter().map(|_| 100.0).collect();
        Row::beside_echo(W1, [ours.iter().copied().collect(), echo])
    }

    #[test]
    fn the_median_decides_between_floor_and_target() {
        assert_eq!(beside_echo(&[71.0, 40.0, 72.0]).verdict, Verdict::Target);
        assert_eq!(beside_echo(&[56.0, 40.0, 72.0]).verdict, Verdict::Floor);
    }

    #[test]
    fn a_floor_fails_only_with_the_whole_interquartile_range() {
        assert_eq!(beside_echo(&[50.0, 51.0, 52.0, 56.0, 57.0]).verdict, Verdict::Unclear);
        assert_eq!(beside_echo(&[50.0, 51.0, 52.0, 53.0, 57.0]).verdict, Verdict::Failed);
    }

    #[test]
    fn less_memory_is_better() {
        let verdict = |values: [f64; 3]| Row::absolute(W8_IDLE, values.into_iter().collect()).verdict;
        assert_eq!(verdict([8.0, 8.5, 13.0]), Verdict::Target);
        assert_eq!(verdict([11.0, 11.5, 13.0]), Verdict::Floor);
        assert_eq!(verdict([12.5, 13.0, 14.0]), Verdict::Failed);
    }

    #[test]
    fn a_figure_that_is_missing_fails() {
        assert_eq!(beside_echo(&[]).verdict, Verdict::Failed);
    }

    #[test]
    fn of_a_rare_bad_one_the_quantile_is_judged_and_all_are_shown() {
        let row = Row::at_quantile(C13, 1.0, [15.1, 17.9, 15.3].into_iter().collect());
        assert_eq!(row.verdict, Verdict::Failed);
        assert_eq!(row.cells()[..4], ["17.90", "–", "–", "15.10–17.90"]);
    }

    #[test]
    fn where_nothing_is_promised_nothing_is_judged() {
        let row = Row::absolute(C4, [0.4].into_iter().collect());
        assert_eq!(row.verdict, Verdict::Unjudged);
        assert_eq!(row.cells()[4..6], ["–", "–"]);
    }

    #[test]
    fn the_check_names_the_goals_that_fail_and_no_others() {
        let mut table = Table::new("webhook", true);
        table.rows = vec![beside_echo(&[60.0]), Row::absolute(W8_IDLE, [20.0].into_iter().collect())];
        let error = table.check().unwrap_err().to_string();
        assert_eq!(error, "below the floor: W8 (memory, idle)");
        table.rows.pop();
        table.check().unwrap();
    }

    #[test]
    fn a_row_shows_both_figures_their_ratio_and_the_lines() {
        let mut table = Table::new("webhook", false);
        table.rows = vec![beside_echo(&[60.0, 65.0, 62.0])];
        let text = table.to_string();
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert!(row.starts_with(&["W1", "CREATE"]), "{text}");
        assert!(
            row.ends_with(&[
                "62",
                "100",
                "0.62",
                "0.60–0.65",
                "≥",
                "0.55",
                "≥",
                "0.70",
                "floor",
                "calls/CPU-s"
            ]),
            "{text}"
        );
    }

    #[test]
    fn the_raw_figures_are_kept_twice() {
        let directory = tempfile::tempdir().unwrap();
        let mut table = Table::new("webhook", false);
        table.rows = vec![beside_echo(&[60.0, 65.0])];
        let kept = table.save(&directory.path().join("bench")).unwrap();
        let latest = kept.with_file_name("webhook-latest.json");
        let figures: serde_json::Value = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
        assert_eq!(figures["rows"][0]["ours"], serde_json::json!([60.0, 65.0]));
        assert_eq!(fs::read(kept).unwrap(), fs::read(latest).unwrap());
    }
}
