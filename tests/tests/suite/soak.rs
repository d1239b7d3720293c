//! Changes all the time, and a controller that is stopped or killed again and again: nothing is lost, and nothing piles up.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use webservice_tests::bed::fleet::nth;
use webservice_tests::bed::{Controller, Process, TestNamespace, is_ready, webservice};
use webservice_tests::bench::machine;
use webservice_tests::prove::full;

const OBJECTS: usize = 50;
/// 20 changes a second.
const CHANGE: Duration = Duration::from_millis(50);
/// Growth from the first to the last third of the lives that still counts as none: pages come and go.
const FLAT: f64 = 1.15;
/// Fewer lives say nothing about growth.
const ENOUGH_LIVES: usize = 6;

/// What the WebServices should be, if they are there: their replicas.
type Wanted = BTreeMap<String, Option<usize>>;

#[tokio::test]
async fn nothing_is_lost_and_nothing_piles_up_while_the_controller_comes_and_goes() {
    let (lives, life) = full((2, Duration::from_secs(5)), (10, Duration::from_mins(1)));
    let (ns, webhook) = TestNamespace::with_webhook().await;
    let mut wanted = Wanted::new();
    let mut footprints = Vec::new();
    let stop = CancellationToken::new();
    let come_and_go = async {
        let mut controller = ns.start_controller().await;
        for number in 1..=lives {
            sleep_until(Instant::now() + life).await;
            let footprint = [Footprint::of(controller.process()), Footprint::of(webhook.process())];
            eprintln!("life {number}: controller {}, webhook {}", footprint[0], footprint[1]);
            footprints.push(footprint);
            controller = succeed(&ns, &controller, number).await;
        }
        stop.cancel();
        controller
    };
    let ((), controller) = tokio::join!(change_until(&stop, &ns, &mut wanted), come_and_go);
    controller.settle(&ns).await;
    assert_as_wanted(&ns, &wanted).await;
    for (name, of) in [("controller", 0), ("webhook", 1)] {
        assert_flat(name, &footprints.iter().map(|both| both[of]).collect::<Vec<_>>());
    }
}

/// Ends a controller in one way or the other, and starts the next.
async fn succeed(ns: &TestNamespace, controller: &Controller, number: usize) -> Controller {
    if number.is_multiple_of(2) {
        controller.process().kill().await;
    } else {
        controller.process().stop().await;
    }
    ns.start_controller().await
}

/// Creates, edits, spoils children and deletes, one object after the other, and keeps account of what should come of it. What has begun is
/// finished: a change that is not waited for may have been made all the same.
async fn change_until(stop: &CancellationToken, ns: &TestNamespace, wanted: &mut Wanted) {
    let mut ticks = interval(CHANGE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for change in 1.. {
        if stop.run_until_cancelled(ticks.tick()).await.is_none() {
            return;
        }
        // Seven and fifty have no common divisor, so every object gets every kind of change.
        let name = nth(change % OBJECTS);
        let is_there = wanted.get(&name).copied().flatten().is_some();
        match change % 7 {
            0 if is_there => {
                ns.webservices().delete(&name).await;
                wanted.insert(name, None);
            }
            1 if is_there => {
                // It may not have been made yet.
                _ = ns.config_maps().try_merge(&format!("{name}-desired"), &spoiled()).await;
            }
            _ if is_there => {
                ns.webservices().merge(&name, json!({"spec": {"replicas": change}})).await;
                wanted.insert(name, Some(change));
            }
            // The one before may still be on its way out.
            _ => {
                let object = webservice(&name).replicas(i32::try_from(change).unwrap());
                if ns.webservices().try_create(object).await.is_ok() {
                    wanted.insert(name, Some(change));
                }
            }
        }
    }
}

fn spoiled() -> Value {
    json!({"data": {"image": "somebody/else:1"}})
}

async fn assert_as_wanted(ns: &TestNamespace, wanted: &Wanted) {
    for (name, replicas) in wanted {
        let child = ns.config_maps().find(&format!("{name}-desired")).await;
        let Some(replicas) = replicas else {
            assert_eq!((ns.webservices().find(name).await, child), (None, None), "{name} was deleted");
            continue;
        };
        let owner = ns.webservices().get(name).await;
        assert!(is_ready(&owner), "{owner:#}");
        let data = json!({"image": "nginx:1.27", "replicas": replicas.to_string(), "tier": "dev"});
        assert_eq!(child.map(|child| child["data"].clone()), Some(data), "{name}");
    }
}

/// What a process holds at the end of a life.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    megabytes: f64,
    files: usize,
}

impl Footprint {
    fn of(process: &Process) -> Self {
        let files = fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count();
        Self { megabytes: machine::memory(process.id()).unwrap().resident, files }
    }
}

impl std::fmt::Display for Footprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MB and {} files", self.megabytes, self.files)
    }
}

fn assert_flat(name: &str, lives: &[Footprint]) {
    if lives.len() < ENOUGH_LIVES {
        return;
    }
    let third = lives.len() / 3;
    let largest = |lives: &[Footprint]| {
        lives
            .iter()
            .fold((0.0_f64, 0), |(memory, files), life| (memory.max(life.megabytes), files.max(life.files)))
    };
    let (first, last) = (largest(&lives[..third]), largest(&lives[lives.len() - third..]));
    assert!(last.0 <= first.0 * FLAT, "the memory of the {name} grows: {lives:?}");
    assert!(last.1 <= first.1 + 4, "the {name} leaves files open: {lives:?}");
}
