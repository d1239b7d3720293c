//! A Service as the API server calls it: kept connections first, whichever replica they lead to; new ones go to a replica
//! that is among the endpoints.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

use super::caller::{Connection, Outcome, Trust};

/// As many unused connections as the API server keeps to one host.
const MAX_IDLE: usize = 25;
/// Connections in a row that may turn out to be closed before anything was sent over them.
const MAX_TRIES: usize = MAX_IDLE + 5;

/// Replicas behind one name, and the caller's connections to them.
pub struct Service {
    trust: Trust,
    endpoints: Mutex<Vec<SocketAddr>>,
    idle: Mutex<Vec<(SocketAddr, Connection)>>,
}

impl Service {
    /// Without endpoints yet.
    #[must_use]
    pub fn new(trust: Trust) -> Self {
        Self { trust, endpoints: Mutex::default(), idle: Mutex::default() }
    }

    /// From now on new connections may lead to this replica.
    pub fn add(&self, replica: SocketAddr) {
        locked(&self.endpoints).push(replica);
    }

    /// From now on no new connection leads there; those that do stay.
    pub fn remove(&self, replica: SocketAddr) {
        locked(&self.endpoints).retain(|endpoint| *endpoint != replica);
    }

    /// One call, and who answered it. A connection that turned out to be closed before anything was sent is replaced, as
    /// the API server does; a failure after that is one.
    pub async fn call(&self) -> Result<SocketAddr> {
        for _ in 0..MAX_TRIES {
            let (replica, mut connection) = self.connection().await?;
            match connection.try_call().await.with_context(|| format!("from {replica}"))? {
                Outcome::NotSent => continue,
                Outcome::Kept => self.keep(replica, connection),
                Outcome::Closing => {}
            }
            return Ok(replica);
        }
        bail!("every connection was closed before anything was sent")
    }

    async fn connection(&self) -> Result<(SocketAddr, Connection)> {
        // The one that was used last is used first.
        let kept = locked(&self.idle).pop();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let endpoint = fastrand::choice(locked(&self.endpoints).iter().copied());
        let endpoint = endpoint.context("there are no endpoints")?;
        let connection = Connection::open(endpoint, &self.trust).await;
        Ok((endpoint, connection.with_context(|| format!("at {endpoint}"))?))
    }

    fn keep(&self, replica: SocketAddr, connection: Connection) {
        let mut idle = locked(&self.idle);
        if idle.len() < MAX_IDLE {
            idle.push((replica, connection));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
