//! All faults at once, each with probability 0.2: what was asked for in such a time comes true soon after it.

use std::env;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{ProxiedNamespace, is_ready, name, webservice, within};
use webservice_tests::fault::{Answer, End, Fault, FaultProxy, Injection, On};
use webservice_tests::prove::full;

const OBJECTS: usize = 40;
const STORM: Duration = Duration::from_secs(15);
/// How long it lasts in full.
const LONG_STORM: Duration = Duration::from_mins(3);
/// How soon all is well after it: sooner than the backstop of five minutes, which would put anything right.
const AFTERWARDS: Duration = Duration::from_mins(3);
const PROBABILITY: f64 = 0.2;

/// Every kind of fault on every kind of request that it can meet.
fn storm(proxy: &FaultProxy, seed: u64) -> Vec<Injection> {
    let hang = Duration::from_secs(30);
    let calls = [
        Fault::refused(409, "Conflict"),
        Fault::answered(Answer::status(429, "TooManyRequests").retry_after(1)),
        Fault::refused(500, "InternalError"),
        Fault::refused(503, "ServiceUnavailable"),
        Fault::denied(504, "Timeout"),
        Fault::lost_request(),
        Fault::lost_reply(),
        Fault::Truncate,
        Fault::Before(End::Hang(hang)),
    ];
    let watches = [
        Fault::refused(410, "Expired"),
        Fault::answered(Answer::error_event(500, "InternalError")),
        Fault::Slow(Duration::from_millis(200)),
        Fault::Silence,
    ];
    let calls = calls.into_iter().map(|fault| (fault, On::calls()));
    let watches = watches.into_iter().map(|fault| (fault, On::verb("watch")));
    let seeded = calls.chain(watches).zip(seed..);
    seeded.map(|((fault, on), seed)| proxy.inject(fault, on.chance(PROBABILITY, seed))).collect()
}

/// Creates, changes, damages and deletes, as long as the storm lasts.
async fn stir(ns: &ProxiedNamespace, random: &mut fastrand::Rng, until: Instant) {
    while Instant::now() < until {
        let name = format!("w-{}", random.usize(..OBJECTS));
        let child = format!("{name}-desired");
        match random.u8(..4) {
            0 => _ = ns.webservices().try_create(webservice(&name).finalizers([FINALIZER])).await,
            1 => {
                let replicas = json!({"spec": {"replicas": random.u8(..9)}});
                _ = ns.webservices().try_merge(&name, &replicas).await;
            }
            2 => _ = ns.config_maps().try_merge(&child, &json!({"data": {"image": "nginx:1.26"}})).await,
            _ if ns.webservices().find(&name).await.is_some() && random.bool() => {
                _ = ns.webservices().try_delete(&name).await;
            }
            _ => {}
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// What is not as it should be.
async fn faults_left(ns: &ProxiedNamespace) -> Vec<String> {
    let (owners, children) = (ns.webservices().list().await, ns.config_maps().list().await);
    let child_of = |owner: &Value| {
        let child = format!("{}-desired", name(owner));
        children.iter().find(|map| name(map) == child)
    };
    let is_right = |owner: &Value| {
        let replicas = owner["spec"]["replicas"].to_string();
        is_ready(owner)
            && child_of(owner).is_some_and(|child| {
                child["data"]["replicas"] == *replicas && child["data"]["image"] == "nginx:1.27"
            })
    };
    let wrong = owners.iter().filter(|owner| !is_right(owner)).map(|owner| name(owner).to_owned());
    let is_orphan = |map: &&Value| {
        let owner = name(map).strip_suffix("-desired");
        owner.is_some_and(|owner| !owners.iter().any(|known| name(known) == owner))
    };
    wrong.chain(children.iter().filter(is_orphan).map(|map| name(map).to_owned())).collect()
}

#[tokio::test]
async fn a_storm_of_all_faults_leaves_nothing_behind() {
    let seed = env::var("FAULT_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..1 << 32));
    eprintln!("FAULT_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let length = full(STORM, LONG_STORM);

    // A list that hangs would keep the controller out of most of the storm: it has tests of its own.
    let ns = ProxiedNamespace::start().await;
    let faults = storm(&ns.proxy, seed);
    stir(&ns, &mut random, Instant::now() + length).await;
    let met: Vec<_> = faults.iter().map(Injection::hits).collect();
    faults.iter().for_each(Injection::lift);
    let calm = Instant::now();

    within(AFTERWARDS, "all is well", async || {
        let left = faults_left(&ns).await;
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    })
    .await;
    eprintln!("met {met:?}, all was well {:?} after the last of them", calm.elapsed());
    assert!(met.iter().filter(|hits| **hits > 0).count() >= 6, "hardly any fault was met: {met:?}");
    assert_eq!(ns.controller.process().errors(), Vec::<Value>::new());
}
