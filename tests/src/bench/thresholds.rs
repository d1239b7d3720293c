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
    /// Must hold.
    pub floor: f64,
    /// Should hold.
    pub target: f64,
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
}

/// What is compared with the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// Our figure divided by that of an echo server in the same round.
    RatioToEcho,
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
