//! What the kernel knows: CPU time and memory of a process, and how busy the machine is (`/proc`, see proc(5)).

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// Length of a tick of `/proc/PID/stat` and `/proc/stat`: Linux shows 100 a second on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// CPU time that a process has used so far, in user mode and in the kernel, all threads together.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let ticks = cpu_ticks(&text).with_context(|| format!("failed to read the CPU time in {path}"))?;
    Ok(TICK * ticks)
}

/// Fields 14 (utime) and 15 (stime). The name before them may hold spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

/// Memory of a process, in MB (10^6 bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Resident now.
    pub resident: f64,
    /// Most that was ever resident.
    pub peak: f64,
}

/// What a process has in memory (`VmRSS`) and ever had (`VmHWM`).
pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let field = |name| megabytes(&text, name).with_context(|| format!("failed to find {name} in {path}"));
    Ok(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// `/proc/PID/status` says kB and means 1,024 bytes.
fn megabytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u32 = line.split_whitespace().next()?.parse().ok()?;
    Some(f64::from(kibibytes) * 1024.0 / 1e6)
}

/// Where figures come from.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// How many cores it has.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: model.map_or("unknown", |(_, name)| name).to_owned(),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor\t")).count(),
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// What disturbed a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// Time that the hypervisor gave to others, in percent of all cores.
    pub steal_percent: f64,
    /// Processes that were running or wanted to, averaged over the last minute.
    pub load: f64,
}

/// Counts disturbance from its creation on.
#[derive(Clone, Debug)]
pub struct Watch {
    began: Ticks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    all: f64,
    stolen: f64,
}

impl Watch {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { began: ticks(&fs::read_to_string("/proc/stat").unwrap_or_default()) }
    }

    /// What it was like since then.
    #[must_use]
    pub fn stop(&self) -> Disturbance {
        let now = ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let (all, stolen) = (now.all - self.began.all, now.stolen - self.began.stolen);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|load| load.parse().ok());
        Disturbance { steal_percent: 100.0 * stolen / all.max(1.0), load: load.unwrap_or(f64::NAN) }
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of user.
fn ticks(stat: &str) -> Ticks {
    let line = stat.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().skip(1).take(8).filter_map(|field| field.parse::<f64>().ok());
    let ticks: Vec<_> = ticks.collect();
    Ticks { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "42 (a) b c) S 1 2 3 4 5 6 7 8 9 10 1500 250 0 0 20 0 3";
        assert_eq!(cpu_ticks(stat), Some(1750));
        assert_eq!(cpu_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_memory_and_once_had_no_less() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.resident > 1.0 && memory.peak >= memory.resident, "{memory:?}");
    }

    #[test]
    fn memory_is_counted_in_bytes_of_ten() {
        assert_eq!(megabytes("Name:\tx\nVmRSS:\t    1000 kB\n", "VmRSS:"), Some(1.024));
    }

    #[test]
    fn stolen_time_is_the_eighth_field() {
        let stat = "cpu  10 0 20 60 0 0 0 10 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1";
        assert_eq!(ticks(stat), Ticks { all: 100.0, stolen: 10.0 });
    }
}
