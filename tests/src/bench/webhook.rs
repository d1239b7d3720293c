//! What the admission webhook costs, beside a server that does nothing.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use tokio::time::sleep;
use webservice_api::constants::VALIDATE_PATH;

use super::client::Target;
use super::hostile::flood;
use super::load::{Load, Until};
use super::reviews;
use super::rounds::Rounds;
use super::samples::Samples;
use super::server::{Server, Servers};
use super::table::{Row, Table};
use super::thresholds::{self, Goal};

/// As many idle connections as an API server keeps to a webhook.
const CONNECTIONS: usize = 25;
const SMALL_CREATE: usize = 1_900;
const SMALL_UPDATE: usize = 2_900;
/// Half of what the same webhook in Go can answer on one core, hand-written.
const RATE: u32 = 5_000;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Measure {
    /// CPU time of small reviews.
    W1,
    /// CPU time of larger ones.
    W2,
    /// Latency without load.
    W3,
    /// Latency at a fixed rate.
    W4,
    /// CPU time of new connections.
    W6,
    /// Memory.
    W8,
    /// Time to start.
    W9,
}

/// How thoroughly.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: Rounds,
    /// One turn of one program.
    turn: Duration,
    calls: usize,
    /// Without calls, before memory is read.
    quiet: Duration,
    cold_starts: usize,
    starts: usize,
}

const FULL: Plan = Plan {
    rounds: Rounds::new(8),
    turn: Duration::from_secs(2),
    calls: 20_000,
    quiet: Duration::from_mins(1),
    cold_starts: 3,
    starts: 20,
};

const QUICK: Plan = Plan {
    rounds: Rounds::new(3),
    turn: Duration::from_millis(500),
    calls: 2_000,
    quiet: Duration::from_secs(2),
    cold_starts: 1,
    starts: 5,
};

/// An empty table for [`run`].
#[must_use]
pub fn table(quick: bool) -> Table {
    Table::new("webhook", quick)
}

/// Measures the given build of the webhook. What fails leaves the rows that were measured before. It must be called on
/// the thread that was pinned to the load's core.
pub async fn run(webhook: PathBuf, measures: &[Measure], table: &mut Table) -> Result<()> {
    let servers = Servers::new(webhook)?;
    let bench = Bench {
        plan: if table.quick { QUICK } else { FULL },
        arms: [servers.webhook().await?, servers.echo().await?],
        servers,
    };
    for measure in measures {
        table.take(&format!("{measure:?}"), bench.measure(*measure)).await?;
    }
    Ok(())
}

/// The programs, started.
struct Bench {
    plan: Plan,
    /// Ours and the echo server. The Go peer will be the third, and the rows judge what it allows.
    arms: [Server; 2],
    servers: Servers,
}

impl Bench {
    async fn measure(&self, measure: Measure) -> Result<Vec<Row>> {
        Ok(match measure {
            Measure::W1 => vec![self.cpu(thresholds::W1, reviews::create(SMALL_CREATE)?).await?],
            Measure::W2 => self.sizes().await?,
            Measure::W3 => vec![self.unloaded().await?],
            Measure::W4 => vec![self.at_a_rate().await?],
            Measure::W6 => vec![self.handshakes().await?],
            Measure::W8 => self.memory().await?,
            Measure::W9 => vec![self.start().await?],
        })
    }

    /// W1: calls per second of CPU time, from 25 connections that are always busy.
    async fn cpu(&self, goal: Goal, requests: Vec<Vec<u8>>) -> Result<Row> {
        let requests = requests.into();
        let turn = async |server: &&Server| {
            let load = load(server.target(), &requests, CONNECTIONS).connect().await?;
            let before = server.cpu_time()?;
            let calls = load.closed_loop(Until::Elapsed(self.plan.turn)).await?.len();
            Ok(per_second(calls, server.cpu_time()?.saturating_sub(before)))
        };
        Ok(Row::beside(goal, self.rounds(turn).await?))
    }

    /// W2: the same for larger reviews.
    async fn sizes(&self) -> Result<Vec<Row>> {
        let sizes = [
            (thresholds::W2_SMALL, SMALL_UPDATE),
            (thresholds::W2_LARGE, 64 * 1024),
            (thresholds::W2_HUGE, 1024 * 1024),
        ];
        let mut rows = Vec::new();
        for (goal, size) in sizes {
            rows.push(self.cpu(goal, reviews::update(size)?).await?);
        }
        Ok(rows)
    }

    /// W3: the median of calls one after the other.
    async fn unloaded(&self) -> Result<Row> {
        let requests = reviews::create(SMALL_CREATE)?.into();
        let turn = async |server: &&Server| {
            let load = load(server.target(), &requests, 1).connect().await?;
            let took = load.closed_loop(Until::Calls(self.plan.calls)).await?;
            Ok(microseconds(&took).median())
        };
        Ok(Row::beside(thresholds::W3, self.rounds(turn).await?))
    }

    /// W4: the slowest hundredth of calls that come in at a fixed rate.
    async fn at_a_rate(&self) -> Result<Row> {
        let requests = reviews::create(SMALL_CREATE)?.into();
        let turn = async |server: &&Server| {
            let load = load(server.target(), &requests, CONNECTIONS).connect().await?;
            let took = load.open_loop(RATE, self.plan.turn).await?;
            Ok(microseconds(&took).quantile(0.99))
        };
        Ok(Row::beside(thresholds::W4, self.rounds(turn).await?))
    }

    /// W6: calls per second of CPU time when each needs a connection of its own.
    async fn handshakes(&self) -> Result<Row> {
        let requests = reviews::closing(&reviews::create(SMALL_CREATE)?).into();
        let turn = async |server: &&Server| {
            let before = server.cpu_time()?;
            let calls = load(server.target(), &requests, CONNECTIONS).storm(self.plan.turn).await?;
            Ok(per_second(calls, server.cpu_time()?.saturating_sub(before)))
        };
        Ok(Row::beside(thresholds::W6, self.rounds(turn).await?))
    }

    /// W8: memory after a quiet while, then under load, then under bodies that no webhook should read; each from cold
    /// starts.
    async fn memory(&self) -> Result<Vec<Row>> {
        let starting = (0..self.plan.cold_starts).map(|_| self.servers.webhook());
        let started = futures::future::try_join_all(starting).await?;
        sleep(self.plan.quiet).await;
        let idle = each(&started, async |server| Ok(server.memory()?.resident)).await?;
        let requests = reviews::create(SMALL_CREATE)?.into();
        let busy = each(&started, async |server| {
            let load = load(server.target(), &requests, 100).connect().await?;
            load.closed_loop(Until::Elapsed(self.plan.turn)).await?;
            Ok(server.memory()?.peak)
        });
        let busy = busy.await?;
        let hostile = each(&started, async |server| {
            let before = server.memory()?.resident;
            flood(server.target(), 1_000, VALIDATE_PATH).await?;
            Ok(server.memory()?.peak - before)
        });
        Ok(vec![
            Row::absolute(thresholds::W8_IDLE, idle),
            Row::absolute(thresholds::W8_BUSY, busy),
            Row::absolute(thresholds::W8_HOSTILE, hostile.await?),
        ])
    }

    /// W9: from exec to ready.
    async fn start(&self) -> Result<Row> {
        let mut took = Vec::new();
        for _ in 0..self.plan.starts {
            took.push(self.servers.time_to_ready().await?.as_secs_f64() * 1e3);
        }
        Ok(Row::absolute(thresholds::W9, took.into_iter().collect()))
    }

    async fn rounds(&self, turn: impl AsyncFnMut(&&Server) -> Result<f64>) -> Result<[Samples; 2]> {
        self.plan.rounds.run(self.arms.each_ref(), turn).await
    }
}

fn load(target: &Target, requests: &std::sync::Arc<[Vec<u8>]>, connections: usize) -> Load {
    Load { target: target.clone(), requests: std::sync::Arc::clone(requests), connections }
}

async fn each(servers: &[Server], measure: impl AsyncFn(&Server) -> Result<f64>) -> Result<Samples> {
    let mut values = Vec::new();
    for server in servers {
        values.push(measure(server).await?);
    }
    Ok(values.into_iter().collect())
}

#[expect(clippy::cast_precision_loss, reason = "a turn has fewer than 2^52 calls")]
fn per_second(calls: usize, cpu: Duration) -> f64 {
    calls as f64 / cpu.as_secs_f64()
}

fn microseconds(took: &[Duration]) -> Samples {
    took.iter().map(|took| took.as_secs_f64() * 1e6).collect()
}
