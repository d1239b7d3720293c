//! Every line that a bench draws. A floor must hold; a target is what the code is tuned for.

use serde::Serialize;

/// What is promised about one figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Goal {
    /// Its name in benches, documents and the changelog.
    pub id: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// In what.
    pub unit: Unit,
    /// What the lines are about.
    pub judged: Judged,
    /// On which side of the lines it should be.
    pub better: Better,
    /// Must hold. Infinite where nothing is promised yet.
    pub floor: f64,
    /// Should hold.
    pub target: f64,
}

impl Judged {
    /// What figures are compared with, if they are.
    #[must_use]
    pub const fn limit(self) -> Option<&'static str> {
        match self {
            Self::RatioToEcho => Some("the echo server"),
            Self::RatioToRawLoop => Some("the raw loop"),
            Self::Figure => None,
        }
    }
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Calls that a second of CPU time suffices for.
    CallsPerCpuSecond,
    /// 10^-6 s.
    Microseconds,
    /// 10^-3 s.
    Milliseconds,
    /// 10^6 bytes.
    Megabytes,
    /// 10^3 bytes.
    Kilobytes,
    /// Seconds.
    Seconds,
    /// Seconds of CPU time.
    CpuSeconds,
    /// Hundredths of one core.
    PercentOfCore,
    /// How often.
    Times,
    /// How often in a second.
    PerSecond,
    /// A part of something, or a multiple of it.
    Ratio,
}

/// What is compared with the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// Our figure divided by that of an echo server in the same round.
    RatioToEcho,
    /// Our figure divided by that of a loop which makes the same requests and does nothing else, in the same round.
    RatioToRawLoop,
    /// Our figure itself.
    Figure,
}

/// Which way is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// At least.
    Higher,
    /// At most.
    Lower,
}

const fn cpu(id: &'static str, what: &'static str, floor: f64, target: f64) -> Goal {
    Goal {
        id,
        what,
        unit: Unit::CallsPerCpuSecond,
        judged: Judged::RatioToEcho,
        better: Better::Higher,
        floor,
        target,
    }
}

const fn latency(id: &'static str, what: &'static str, floor: f64, target: f64) -> Goal {
    Goal {
        id,
        what,
        unit: Unit::Microseconds,
        judged: Judged::RatioToEcho,
        better: Better::Lower,
        floor,
        target,
    }
}

const fn memory(what: &'static str, floor: f64, target: f64) -> Goal {
    Goal {
        id: "W8",
        what,
        unit: Unit::Megabytes,
        judged: Judged::Figure,
        better: Better::Lower,
        floor,
        target,
    }
}

/// The main case: a small object is created.
pub const W1: Goal = cpu("W1", "CREATE 1.9 KB, 25 connections", 0.55, 0.70);
/// Both objects have to be read.
pub const W2_SMALL: Goal = cpu("W2", "UPDATE 2.9 KB, 25 connections", 0.50, 0.65);
/// An object with a long history.
pub const W2_LARGE: Goal = cpu("W2", "UPDATE 64 KB, 25 connections", 0.50, 0.65);
/// The largest that etcd takes by default, once in each version.
pub const W2_HUGE: Goal = cpu("W2", "UPDATE 1 MB, 25 connections", 0.50, 0.65);
/// Nobody else is there.
pub const W3: Goal = latency("W3", "p50, CREATE 1.9 KB, 1 connection", 1.30, 1.15);
/// Calls come in whether earlier ones are answered or not.
pub const W4: Goal = latency("W4", "p99, CREATE 1.9 KB, 5,000 calls/s", 2.0, 1.5);
/// TLS from its beginning.
pub const W6: Goal = cpu("W6", "new connection for each CREATE", 0.80, 0.90);
/// After a while without calls.
pub const W8_IDLE: Goal = memory("memory, idle", 12.0, 9.0);
/// At its peak, under as many calls as come.
pub const W8_BUSY: Goal = memory("memory, peak under 100 connections", 16.0, 12.0);
/// What bodies that nobody should send add to the idle one, at the peak.
pub const W8_HOSTILE: Goal = memory("memory, added by 1,000 bodies of 1 GB", 32.0, 16.0);
/// From exec to the first 200 of `/readyz`.
pub const W9: Goal = Goal {
    id: "W9",
    what: "exec to ready",
    unit: Unit::Milliseconds,
    judged: Judged::Figure,
    better: Better::Lower,
    floor: 15.0,
    target: 8.0,
};

const fn at_most(id: &'static str, what: &'static str, unit: Unit, floor: f64, target: f64) -> Goal {
    Goal { id, what, unit, judged: Judged::Figure, better: Better::Lower, floor, target }
}

const fn beside_raw_loop(id: &'static str, what: &'static str, unit: Unit, floor: f64, target: f64) -> Goal {
    Goal { judged: Judged::RatioToRawLoop, ..at_most(id, what, unit, floor, target) }
}

/// What the Go peer will be compared in; until then it is only told.
const UNJUDGED: f64 = f64::INFINITY;

/// Child and status.
pub const C1_CREATE: Goal = at_most("C1", "writes per creation", Unit::Times, 2.0, 2.0);
/// Child and status.
pub const C1_CHANGE: Goal = at_most("C1", "writes per change of the spec", Unit::Times, 2.0, 2.0);
/// Nothing that the child or the status depends on.
pub const C1_NOTHING: Goal = at_most("C1", "writes per change of a label", Unit::Times, 0.0, 0.0);
/// Nothing has changed meanwhile.
pub const C1_RESTART: Goal = at_most("C1", "writes per object at a restart", Unit::Times, 0.0, 0.0);
/// The child alone.
pub const C1_DRIFT: Goal = at_most("C1", "writes per child edited by hand", Unit::Times, 1.0, 1.0);
/// Child and finalizer.
pub const C1_DELETE: Goal = at_most("C1", "writes per deletion", Unit::Times, 2.0, 2.0);
/// One for each transition.
pub const C1_EVENTS: Goal = at_most("C1", "events per creation", Unit::Times, 1.0, 1.0);
/// In all of these together, once the caches are filled.
pub const C2: Goal = at_most("C2", "reads per object, from creation to deletion", Unit::Times, 0.0, 0.0);
/// From exec of the controller to the last status.
pub const C3: Goal = beside_raw_loop("C3", "backlog to all Ready", Unit::Seconds, 1.15, 1.05);
/// What the controller's CPU does meanwhile.
pub const C4: Goal = at_most("C4", "CPU per 1,000 converged", Unit::CpuSeconds, UNJUDGED, UNJUDGED);
/// What a newcomer waits, as part of the time that those before it take.
pub const C6: Goal = at_most("C6", "newcomer's wait / drain of the backlog", Unit::Ratio, 0.10, 0.02);
/// Of whatever kind but the Lease.
pub const C7_WRITES: Goal = at_most("C7", "writes at rest", Unit::Times, 0.0, 0.0);
/// Renewals.
pub const C7_LEASE: Goal = at_most("C7", "writes of the Lease at rest", Unit::PerSecond, 0.2, 0.1);
/// Reconnects, full lists and renewals.
pub const C7_CPU: Goal = at_most("C7", "CPU at rest", Unit::PercentOfCore, 0.2, 0.05);
/// What the Go peer needs more of.
pub const C8: Goal = at_most("C8", "memory, with the fewer pairs", Unit::Megabytes, UNJUDGED, UNJUDGED);
/// WebService and child, in the caches and around them.
pub const C9: Goal = at_most("C9", "memory per further pair", Unit::Kilobytes, 2.0, 1.0);
/// Over a start and three full lists of everything.
pub const C10: Goal = at_most("C10", "peak / steady memory, with the more pairs", Unit::Ratio, 1.5, 1.2);
/// From exec to the first 200 of `/readyz`.
pub const C11_EMPTY: Goal =
    at_most("C11", "exec to ready, nothing there", Unit::Milliseconds, UNJUDGED, UNJUDGED);
/// The same, with caches to fill.
pub const C11_FULL: Goal =
    beside_raw_loop("C11", "exec to ready / two raw paged lists", Unit::Milliseconds, UNJUDGED, UNJUDGED);
/// Between the last write of one leader and the first of the next.
pub const C12: Goal = at_most("C12", "gap at a handover, p99", Unit::Seconds, 1.0, 0.3);
/// From the kill to the first write of the next leader: `LeaseDuration`, `RetryPeriod` and half a second.
pub const C13: Goal =
    at_most("C13", "kill -9 to the next leader's write, longest", Unit::Seconds, 17.5, 15.2);
