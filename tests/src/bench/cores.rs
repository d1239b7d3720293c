//! Which core does what: the server has one, the load another, so that neither pays for the other's work.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The core of the program that is measured.
pub const SERVER: usize = 0;
/// The core of the load generator.
pub const LOAD: usize = 1;

/// Binds the calling thread, and what it will start, to one core.
pub fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .with_context(|| format!("failed to run on core {core}; benches need two cores for themselves"))
}

/// Starts something on another core and comes back.
pub fn on<T>(core: usize, start: impl FnOnce() -> T) -> Result<T> {
    let here = sched_getaffinity(None).context("failed to read on which cores this runs")?;
    pin(core)?;
    let started = start();
    sched_setaffinity(None, &here).context("failed to go back to the core of the load")?;
    Ok(started)
}
