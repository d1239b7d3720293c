//! One process and no other: a pid alone may be given to a stranger once its owner is gone.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use serde::{Deserialize, Serialize};

/// A process, identified by its pid and the moment it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pid: i32,
    /// Clock ticks since boot: field 22 of `/proc/PID/stat`, see proc(5).
    started: u64,
}

impl ProcessId {
    /// The process that has this pid at the moment, or none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, started: start_time(&stat)? })
    }

    /// The process that runs this code.
    pub fn current() -> Result<Self> {
        Self::of(std::process::id()).context("failed to read /proc/self/stat")
    }

    /// The number, for a person who wants to look at the process.
    #[must_use]
    pub fn pid(self) -> i32 {
        self.pid
    }

    /// Whether it still runs. A process that ended but was not waited for counts as ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        self.open().is_some_and(|handle| !wait_for_end(&handle, Duration::ZERO))
    }

    /// Sends a signal; false when the process is gone.
    pub fn signal(self, signal: Signal) -> Result<bool> {
        let Some(handle) = self.open() else { return Ok(false) };
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("failed to signal process {}", self.pid)),
        }
    }

    /// Waits until the process has ended; false when it still runs after `timeout`.
    #[must_use]
    pub fn wait(self, timeout: Duration) -> bool {
        self.open().is_none_or(|handle| wait_for_end(&handle, timeout))
    }

    /// A handle on exactly this process. It is opened before the start time is compared, so the pid cannot change hands
    /// in between.
    fn open(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        let now = Self::of(u32::try_from(self.pid).ok()?);
        (now == Some(self)).then_some(handle)
    }
}

/// Waits for the end and, where the process is a child of ours, takes its exit status, so that no zombie stays.
fn wait_for_end(handle: &OwnedFd, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap_or_default();
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return false,
            Ok(_) => break,
        }
    }
    // Fails for a process that is no child of ours, which is nothing to worry about.
    _ = waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    true
}

/// Field 22 of `/proc/PID/stat`. The second field is the command in parentheses and may itself hold spaces and
/// parentheses, so counting begins after the last one.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_command) = stat.rsplit_once(')')?;
    after_command.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_a_command_with_spaces_and_parentheses() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 5 3 0 0 20 0 1 0 4711 1000 200";
        assert_eq!(start_time(stat), Some(4711));
    }

    #[test]
    fn a_truncated_stat_line_has_no_start_time() {
        assert_eq!(start_time("7 (sleep) S 1 7"), None);
    }

    #[test]
    fn a_process_with_the_same_pid_but_another_start_time_is_a_stranger() {
        let me = ProcessId::current().unwrap();
        let predecessor = ProcessId { started: me.started - 1, ..me };
        assert!(me.is_alive());
        assert!(!predecessor.is_alive());
        assert!(!predecessor.signal(Signal::TERM).unwrap());
    }

    #[test]
    fn a_child_that_ended_is_not_alive_even_before_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert!(id.is_alive());
        id.signal(Signal::TERM).unwrap();
        assert!(id.wait(Duration::from_secs(10)));
        assert!(!id.is_alive());
        assert!(child.wait().is_err(), "it was waited for already");
    }
}
