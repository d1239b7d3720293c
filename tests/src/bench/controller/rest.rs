//! C7: nothing changes, but connections end, versions expire, and the API server is restarted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::time::sleep;
use webservice_api::{crd, rbac};

use super::super::machine;
use super::super::table::Row;
use super::super::thresholds;
use super::per;
use crate::bed::{Call, Mark, TestCluster, TestNamespace, fleet};

/// In which time a controller must have listed everything.
const PATIENCE: Duration = Duration::from_mins(3);
/// How much rests, for how long, and how often in that time the known versions of the WebServices expire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) pairs: usize,
    pub(super) length: Duration,
    pub(super) expiries: usize,
}

/// Writes and CPU time at rest.
pub(super) async fn at_rest(rest: Rest) -> Result<Vec<Row>> {
    let cluster = TestCluster::private_with_crd().await;
    let ns = cluster.namespace().await;
    ns.grant([rbac::controller(), rbac::leader_election()].concat()).await;
    fleet::at_rest(&ns, 0..rest.pairs).await;
    let election = format!("--leader-election-namespace={}", ns.name());
    let controller = ns.controller().flags(["--leader-elect", &election]).start().await;
    controller.settle(&ns).await;

    let (mark, began) = (ns.mark().await, Instant::now());
    let cpu = machine::cpu_time(controller.process().id())?;
    disturb(&ns, rest).await?;
    let cpu = machine::cpu_time(controller.process().id())?.saturating_sub(cpu);
    let elapsed = began.elapsed();

    let calls = ns.calls_since(&mark).await;
    let writes = calls.all().iter().filter(|call| call.is_write());
    let (lease, others): (Vec<_>, Vec<_>) = writes.partition(|call| call.resource == "leases");
    for call in &others {
        eprintln!("   {call}");
    }
    let one = |value: f64| [value].into_iter().collect();
    let share = 100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64();
    Ok(vec![
        Row::absolute(thresholds::C7_WRITES, one(per(others.len(), 1))),
        Row::absolute(thresholds::C7_LEASE, one(per(lease.len(), 1) / elapsed.as_secs_f64())),
        Row::absolute(thresholds::C7_CPU, one(share)),
    ])
}

/// Lets versions expire and restarts the API server, with rest between them.
async fn disturb(ns: &TestNamespace, Rest { length, expiries, .. }: Rest) -> Result<()> {
    let pause = length / u32::try_from(expiries + 2)?;
    for time in 1..=expiries {
        sleep(pause).await;
        expire(ns, time).await?;
    }
    sleep(pause).await;
    relist(ns).await?;
    sleep(pause).await;
    Ok(())
}

/// Another schema makes the API server begin its cache of the WebServices anew. When the watch on the old one ends, which it
/// does within a minute, what was seen by it is "too old": 410, and they have to be listed again.
async fn expire(ns: &TestNamespace, time: usize) -> Result<()> {
    let mut definition = crd::crd()?;
    let schema = definition.spec.versions.iter_mut().find_map(|version| version.schema.as_mut());
    let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
    schema.context("a CRD without a schema")?.description = Some(format!("Described for the {time}th time"));
    let mark = ns.mark().await;
    ns.cluster().install(definition).await;
    await_list(ns, &mark, "webservices").await;
    Ok(())
}

/// Restarts the API server, whose new caches begin later than what the controllers of `ns` have seen, and waits until these
/// have listed everything again.
pub(super) async fn relist(ns: &TestNamespace) -> Result<()> {
    let mark = ns.mark().await;
    ns.cluster().restart_api_server().await?;
    for resource in ["webservices", "configmaps"] {
        await_list(ns, &mark, resource).await;
    }
    Ok(())
}

async fn await_list(ns: &TestNamespace, mark: &Mark, resource: &str) {
    let mut lists = Lists { resource, user: &ns.account().await.user, is_listing: false };
    let what = format!("the {resource} are listed again");
    ns.calls_from(mark).await_calls(PATIENCE, &what, 1, |call| lists.ends_with(call)).await;
}

/// Recognises a full list by the watch that follows it: it has many pages.
struct Lists<'a> {
    resource: &'a str,
    user: &'a str,
    is_listing: bool,
}

impl Lists<'_> {
    /// Whether a full list has ended when this call, which follows those before it, was made.
    fn ends_with(&mut self, call: &Call) -> bool {
        if (&*call.resource, &*call.user, call.code) != (self.resource, self.user, 200) {
            return false;
        }
        let was_listing = self.is_listing;
        self.is_listing = call.verb == "list";
        was_listing && call.verb == "watch"
    }
}
