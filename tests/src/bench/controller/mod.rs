//! What the controller costs on a real API server, beside a loop that makes the same requests and does nothing else.
//!
//! Every measure has a cluster of its own, so that none finds what another has left. Calls are counted, and moments are
//! taken, in the API server's audit log: its clock is the only one, and nobody has to ask it anything meanwhile. The
//! controller has a service account with the rights that the chart grants.

mod backlog;
mod memory;
mod rest;
mod start;
mod succession;
mod writes;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use futures::FutureExt;
use jiff::Timestamp;

use self::rest::Rest;
use super::machine::Watch;
use super::rounds::Rounds;
use super::table::{Row, Table};
use crate::bed::Call;

/// What can be measured, and how long that takes on two cores, `--quick` in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Measure {
    /// Writes and reads per WebService, with C2: 1 min (30 s)
    #[value(alias = "C2")]
    C1,
    /// A backlog to all Ready, beside the raw loop, with CPU time: 2 min (30 s); 15 min with --backlog=10000
    C3,
    /// A newcomer while a backlog is worked off: 3 min (30 s)
    C6,
    /// At rest, through full lists and a restart of the API server: 12 min (1 min)
    C7,
    /// Memory, per pair and at its peak, with C10: 10 min (1 min)
    #[value(alias = "C10")]
    C9,
    /// Time to start: 2 min (30 s)
    C11,
    /// Handover at SIGTERM: 3 min (30 s)
    C12,
    /// Takeover after kill -9: 8 min (1 min)
    C13,
}

/// How thoroughly.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// C1: WebServices of which each call is counted.
    counted: usize,
    /// C3: turns of each program.
    rounds: Rounds,
    /// C3: WebServices that wait for the controller.
    backlog: usize,
    /// C6: WebServices before the newcomer, and how often.
    queue: (usize, usize),
    /// C7.
    rest: Rest,
    /// C9: pairs, first and then.
    pairs: [usize; 2],
    /// C9: without events, before memory is read.
    quiet: Duration,
    /// C9, and C11: controllers started.
    starts: (usize, usize),
    /// C12.
    handovers: usize,
    /// C13.
    kills: usize,
}

const FULL: Plan = Plan {
    counted: 200,
    rounds: Rounds::new(6),
    backlog: 1_000,
    queue: (10_000, 3),
    rest: Rest { pairs: 10_000, length: Duration::from_mins(10), expiries: 3 },
    pairs: [10_000, 50_000],
    quiet: Duration::from_mins(1),
    starts: (3, 10),
    handovers: 50,
    kills: 20,
};

const QUICK: Plan = Plan {
    counted: 20,
    rounds: Rounds::new(3),
    backlog: 200,
    queue: (1_000, 1),
    rest: Rest { pairs: 1_000, length: Duration::from_secs(20), expiries: 1 },
    pairs: [1_000, 5_000],
    quiet: Duration::from_secs(3),
    starts: (1, 3),
    handovers: 5,
    kills: 1,
};

impl Plan {
    /// The long form, or one that only shows that it works.
    #[must_use]
    pub const fn new(quick: bool) -> Self {
        if quick { QUICK } else { FULL }
    }

    /// With another size of C3.
    #[must_use]
    pub const fn with_backlog(self, backlog: usize) -> Self {
        Self { backlog, ..self }
    }
}

/// An empty table for [`run`].
#[must_use]
pub fn table(quick: bool) -> Table {
    Table::new("controller", quick)
}

/// Measures the controller beside this program. What fails leaves the rows that were measured before.
pub async fn run(measures: &[Measure], plan: Plan, table: &mut Table) -> Result<()> {
    for measure in measures {
        eprintln!("── {measure:?}");
        let watch = Watch::start();
        // The test bed fails by panics, as tests do.
        let outcome = AssertUnwindSafe(measure.rows(&plan)).catch_unwind().await;
        let mut rows = match outcome {
            Ok(rows) => rows?,
            Err(panic) => bail!("failed to measure {measure:?}: {}", message(&*panic)),
        };
        let disturbance = watch.stop();
        for row in &mut rows {
            row.disturbance = Some(disturbance);
        }
        table.rows.extend(rows);
    }
    Ok(())
}

impl Measure {
    async fn rows(self, plan: &Plan) -> Result<Vec<Row>> {
        match self {
            Self::C1 => Ok(writes::per_object(plan.counted).await),
            Self::C3 => backlog::beside_raw_loop(plan.rounds, plan.backlog).await,
            Self::C6 => Ok(backlog::newcomer(plan.queue).await),
            Self::C7 => rest::at_rest(plan.rest).await,
            Self::C9 => memory::per_pair(plan.pairs, plan.starts.0, plan.quiet).await,
            Self::C11 => start::to_ready(plan.pairs[0], plan.starts.1).await,
            Self::C12 => Ok(succession::handovers(plan.handovers).await),
            Self::C13 => Ok(succession::kills(plan.kills).await),
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

/// Whether it is a status that was written.
fn is_report(call: &Call) -> bool {
    call.resource == "webservices/status" && call.has_written()
}

/// Seconds between two moments.
fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A part of a whole, both counted.
#[expect(clippy::cast_precision_loss, reason = "nothing is counted up to 2^52")]
fn per(count: usize, of: usize) -> f64 {
    count as f64 / of as f64
}
