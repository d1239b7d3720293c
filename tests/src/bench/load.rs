//! The load generator.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Mutex;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::client::{Connection, Target};

/// How much longer than planned a load may take before it counts as hung.
const PATIENCE: Duration = Duration::from_mins(1);

/// Who is called, with what, over how many connections.
#[derive(Clone)]
pub struct Load {
    /// Who.
    pub target: Target,
    /// Whole requests, which every connection sends in turns.
    pub requests: Arc<[Vec<u8>]>,
    /// How many, at least one.
    pub connections: usize,
}

/// When it is enough.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After a time.
    Elapsed(Duration),
    /// After so many calls on each connection.
    Calls(usize),
}

/// Connections that are open and wait.
pub struct Ready {
    connections: Vec<Connection>,
    requests: Arc<[Vec<u8>]>,
}

impl Load {
    /// Opens the connections, so that the handshakes are not measured.
    pub async fn connect(&self) -> Result<Ready> {
        let connecting = (0..self.connections).map(|_| self.target.connect());
        let connections = timeout(PATIENCE, futures::future::try_join_all(connecting)).await;
        let connections = connections.context("failed to connect in time")??;
        Ok(Ready { connections, requests: Arc::clone(&self.requests) })
    }

    /// Opens a connection for each call, on as many places at a time as there are connections, and gives the number of
    /// calls. The requests should ask the server to close the connection.
    pub async fn storm(&self, length: Duration) -> Result<usize> {
        let end = Instant::now() + length;
        let workers = (0..self.connections).map(|_| {
            let Self { target, requests, .. } = self.clone();
            async move {
                let mut calls = 0;
                for request in requests.iter().cycle() {
                    let mut connection = target.connect().await?;
                    connection.call(request).await?;
                    connection.finish().await?;
                    calls += 1;
                    if Instant::now() >= end {
                        break;
                    }
                }
                Ok(calls)
            }
        });
        Ok(together(workers, length).await?.into_iter().sum())
    }
}

impl Ready {
    /// Every connection calls again as soon as it is answered. Gives how long each call took.
    pub async fn closed_loop(self, until: Until) -> Result<Vec<Duration>> {
        let began = Instant::now();
        let length = if let Until::Elapsed(length) = until { length } else { Duration::ZERO };
        let workers = self.connections.into_iter().map(|mut connection| {
            let requests = Arc::clone(&self.requests);
            async move {
                let mut took = Vec::new();
                for request in requests.iter().cycle() {
                    let sent = Instant::now();
                    connection.call(request).await?;
                    took.push(sent.elapsed());
                    let enough = match until {
                        Until::Elapsed(length) => began.elapsed() >= length,
                        Until::Calls(calls) => took.len() >= calls,
                    };
                    if enough {
                        break;
                    }
                }
                Ok(took)
            }
        });
        Ok(together(workers, length).await?.concat())
    }

    /// Calls at a fixed rate, whether earlier calls are answered or not, on whichever connection is free. Gives how long
    /// each call took from the moment it was due: a server that falls behind cannot slow the measurement down with it
    /// (what is known as coordinated omission).
    pub async fn open_loop(self, rate: u32, length: Duration) -> Result<Vec<Duration>> {
        let schedule = Arc::new(Mutex::new(Schedule::new(rate, length)));
        let workers = self.connections.into_iter().map(|mut connection| {
            let (requests, schedule) = (Arc::clone(&self.requests), Arc::clone(&schedule));
            async move {
                let mut took = Vec::new();
                for request in requests.iter().cycle() {
                    let Some(due) = schedule.lock().await.next_due().await else { break };
                    connection.call(request).await?;
                    took.push(due.elapsed());
                }
                Ok(took)
            }
        });
        Ok(together(workers, length).await?.concat())
    }
}

/// When calls are due.
struct Schedule {
    next: Instant,
    interval: Duration,
    end: Instant,
}

impl Schedule {
    fn new(rate: u32, length: Duration) -> Self {
        let next = Instant::now();
        Self { next, interval: Duration::from_secs(1) / rate, end: next + length }
    }

    /// Waits until the next call is due. It gives way to the other connections meanwhile but does not sleep: timers are
    /// a millisecond coarse, and the core has nothing else to do.
    async fn next_due(&mut self) -> Option<Instant> {
        let due = self.next;
        if due >= self.end {
            return None;
        }
        self.next += self.interval;
        while Instant::now() < due {
            yield_now().await;
        }
        Some(due)
    }
}

/// Runs workers side by side to their end. The first that fails ends all.
///
/// The core is kept busy meanwhile: to wake a core that sleeps costs the server that answers it more than the answer,
/// and a fast server, which leaves no time to fall asleep, would be spared what a slow one pays.
async fn together<T, W>(workers: impl Iterator<Item = W>, length: Duration) -> Result<Vec<T>>
where
    T: Send + 'static,
    W: Future<Output = Result<T>> + Send + 'static,
{
    let mut workers: JoinSet<_> = workers.collect();
    let all = async {
        let mut results = Vec::with_capacity(workers.len());
        while let Some(result) = workers.join_next().await {
            results.push(result.context("failed to finish a worker")??);
        }
        Ok(results)
    };
    tokio::select! {
        finished = timeout(length + PATIENCE, all) => finished.context("failed to finish the load in time")?,
        never = stay_awake() => match never {},
    }
}

async fn stay_awake() -> Infallible {
    loop {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_are_due_at_the_rate_however_late_they_are_taken() {
        let mut schedule = Schedule::new(1000, Duration::from_millis(3));
        let first = schedule.next_due().await.unwrap();
        while first.elapsed() < Duration::from_millis(5) {}
        let late = schedule.next_due().await.unwrap();
        assert_eq!(late - first, Duration::from_millis(1));
        assert_eq!(schedule.next_due().await.unwrap() - first, Duration::from_millis(2));
        assert_eq!(schedule.next_due().await, None);
    }

    #[tokio::test]
    async fn a_call_is_not_taken_before_it_is_due() {
        let mut schedule = Schedule::new(500, Duration::from_secs(1));
        schedule.next_due().await.unwrap();
        let due = schedule.next_due().await.unwrap();
        assert!(Instant::now() >= due);
    }

    #[tokio::test]
    async fn one_worker_that_fails_ends_all() {
        let workers = (0..2).map(|number| async move {
            if number == 0 {
                std::future::pending::<()>().await;
            }
            anyhow::bail!("refused")
        });
        let result: Result<Vec<()>> = together(workers, Duration::ZERO).await;
        assert_eq!(result.unwrap_err().to_string(), "refused");
    }
}
