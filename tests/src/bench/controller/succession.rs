//! C12 and C13: one leader goes, by its own will or not, and the next one takes over while people go on editing.

use std::time::Duration;

use jiff::Timestamp;

use super::super::samples::Samples;
use super::super::table::Row;
use super::super::thresholds;
use super::seconds;
use crate::bed::{Account, Call, Controller, DEADLINE, TestCluster, TestNamespace, fleet};

/// WebServices that are edited in turns.
const EDITED: usize = 20;
/// How often one of them is.
const EDIT: Duration = Duration::from_millis(20);

/// C12: the gap between the last write of a leader that is asked to stop and the first of the next.
pub(super) async fn handovers(count: usize) -> Vec<Row> {
    let gaps = successions(count, async |leader| {
        leader.process().stop().await;
        None
    });
    vec![Row::at_quantile(thresholds::C12, 0.99, gaps.await)]
}

/// C13: the time from the end of a leader that is killed to the first write of the next.
pub(super) async fn kills(count: usize) -> Vec<Row> {
    let gaps = successions(count, async |leader| {
        let killed = Timestamp::now();
        leader.process().kill().await;
        Some(killed)
    });
    vec![Row::at_quantile(thresholds::C13, 1.0, gaps.await)]
}

/// So many times a leader is ended, which says when the gap began if not with its last write. Gives the gaps, in seconds.
async fn successions(count: usize, end: impl AsyncFn(&Controller) -> Option<Timestamp>) -> Samples {
    let cluster = TestCluster::private_with_crd().await;
    let ns = cluster.namespace().await;
    let accounts = [ns.candidate_account("controller-a").await, ns.candidate_account("controller-b").await];
    fleet::at_rest(&ns, 0..EDITED).await;
    let succeed = async {
        let mut leader = ns.start_candidate(&accounts[0]).await;
        let mut gaps = Vec::new();
        for turn in 0..count {
            let (old, new) = (&accounts[turn % 2], &accounts[(turn + 1) % 2]);
            let standby = ns.start_candidate(new).await;
            gaps.push(succession(&ns, (&leader, old), new, &end).await);
            leader = standby;
        }
        gaps
    };
    fleet::edited_meanwhile(&ns, EDITED, EDIT, succeed).await.into_iter().collect()
}

/// Ends the leader, and gives the gap.
async fn succession(
    ns: &TestNamespace,
    (leader, old): (&Controller, &Account),
    new: &Account,
    end: impl AsyncFn(&Controller) -> Option<Timestamp>,
) -> f64 {
    let mark = ns.mark().await;
    let wrote = |account: &Account| {
        let user = account.user.clone();
        move |call: &Call| call.user == user && call.has_written()
    };
    ns.calls_from(&mark).await_calls(DEADLINE, "the leader works", 3, wrote(old)).await;
    let ended = end(leader).await;
    ns.calls_from(&mark).await_calls(DEADLINE, "the standby takes over", 1, wrote(new)).await;
    // Lines may have come in another order than the calls.
    ns.mark().await;
    let calls = ns.calls_from(&mark).read();
    let last = calls.all().iter().filter(|call| wrote(old)(call)).map(|call| call.answered).max();
    let first = calls.all().iter().filter(|call| wrote(new)(call)).map(|call| call.received).min();
    ended.or(last).zip(first).map_or(f64::NAN, |(last, first)| seconds(last, first))
}
