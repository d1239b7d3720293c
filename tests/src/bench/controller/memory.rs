//! C8 to C10: what the caches take.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::super::machine::{self, Memory};
use super::super::samples::Samples;
use super::super::table::Row;
use super::super::thresholds;
use super::per;
use super::rest::relist;
use crate::bed::{Controller, TestCluster, TestNamespace, fleet};

/// Full lists of everything, over which the peak is taken.
const RELISTS: usize = 3;

/// Memory of controllers that were started with the fewer pairs, and with the more: the difference is the pairs'.
pub(super) async fn per_pair([few, many]: [usize; 2], starts: usize, quiet: Duration) -> Result<Vec<Row>> {
    let cluster = TestCluster::private_with_crd().await;
    let ns = cluster.namespace().await;
    fleet::at_rest(&ns, 0..few).await;
    let with_few: Samples = memories(&start(&ns, starts).await, quiet).await?.map(resident).collect();
    fleet::at_rest(&ns, few..many).await;
    let mut controllers = start(&ns, starts).await;
    let with_many: Vec<_> = memories(&controllers, quiet).await?.map(resident).collect();

    controllers.truncate(1);
    for _ in 0..RELISTS {
        relist(&ns).await?;
    }
    let after = memories(&controllers, quiet).await?.map(|memory| memory.peak / memory.resident);
    let after = after.collect();

    // MB per thousand are KB each.
    let thousands = per(many - few, 1_000);
    let base = with_few.median();
    let slope = with_many.iter().map(|memory| (memory - base) / thousands).collect();
    Ok(vec![
        Row::absolute(thresholds::C8, with_few),
        Row::absolute(thresholds::C9, slope),
        Row::absolute(thresholds::C10, after),
    ])
}

/// Side by side: with nothing to do they do not get in each other's way.
async fn start(ns: &TestNamespace, count: usize) -> Vec<Controller> {
    let mut controllers = Vec::new();
    for _ in 0..count {
        controllers.push(ns.start_controller().await);
    }
    controllers
}

async fn memories(controllers: &[Controller], quiet: Duration) -> Result<impl Iterator<Item = Memory>> {
    sleep(quiet).await;
    let memories = controllers.iter().map(|controller| machine::memory(controller.process().id()));
    let memories = memories.collect::<Result<Vec<_>>>()?;
    for Memory { resident, peak } in &memories {
        eprintln!("   {resident:.1} MB, at most {peak:.1} MB");
    }
    Ok(memories.into_iter())
}

fn resident(memory: Memory) -> f64 {
    memory.resident
}
