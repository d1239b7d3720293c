//! `/debug/state`: what the process is doing, as JSON with stable names; see docs/reference/debug.md.

use std::time::Duration;

use serde::Serialize;

use crate::engine::lease::Role;
use crate::engine::{Failure, ObjectKey, Store};
use crate::leadership::LEASE;
use crate::metrics::{ByKind, CONFIG_MAP, WEB_SERVICE};
use crate::sizes::{HeapSize, store_bytes};
use crate::vitals::{Vitals, WatchState};

/// Failing keys that are listed; the number of all is told beside them.
const MOST_FAILING: usize = 100;

/// The state as JSON.
#[must_use]
pub fn state(vitals: &Vitals) -> String {
    // Nothing in it can fail to be written.
    serde_json::to_string_pretty(&State::of(vitals)).unwrap_or_default()
}

/// Times are in seconds up to now, or from now on where the name says `In`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct State {
    version: &'static str,
    lease: Lease,
    queue: Queue,
    back_off: BackOff,
    own_writes: OwnWrites,
    caches: [Cache; 2],
    watches: Vec<Watch>,
    last_answer_seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lease {
    name: &'static str,
    /// `leader`, `standby` or `retired`.
    role: &'static str,
    identity: Option<String>,
    holder: Option<String>,
    leading_seconds: Option<f64>,
    fence_closes_in_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    live: usize,
    initial: usize,
    delayed: usize,
    in_work: Vec<InWork>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InWork {
    key: String,
    seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BackOff {
    count: usize,
    keys: Vec<BackingOff>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BackingOff {
    key: String,
    failures: u32,
    failing_seconds: f64,
    retry_in_seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnWrites {
    expired: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cache {
    kind: &'static str,
    objects: usize,
    bytes: usize,
    is_synced: bool,
    age_seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Watch {
    what: String,
    last_event_seconds: Option<f64>,
    problem: Option<String>,
}

impl State {
    fn of(vitals: &Vitals) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            lease: Lease::of(vitals),
            queue: Queue::of(vitals),
            back_off: BackOff {
                count: vitals.backoff.len(),
                keys: vitals.backoff.failing(MOST_FAILING).into_iter().map(BackingOff::of).collect(),
            },
            own_writes: OwnWrites { expired: vitals.own_writes.expired() },
            caches: [
                Cache::of(WEB_SERVICE, &vitals.caches.webservices, vitals),
                Cache::of(CONFIG_MAP, &vitals.caches.children, vitals),
            ],
            watches: vitals.watches.states().map(|watch| Watch::of(&watch)).collect(),
            last_answer_seconds: seconds(vitals.heard.silence()),
        }
    }
}

impl Lease {
    fn of(vitals: &Vitals) -> Self {
        let standing = &vitals.standing;
        let (role, holder) = match standing.role() {
            Role::Leader => ("leader", standing.identity.clone()),
            Role::Standby { holder } => ("standby", holder),
            Role::Retired => ("retired", None),
        };
        Self {
            name: LEASE,
            role,
            identity: standing.identity.clone(),
            holder,
            leading_seconds: standing.leading_for().map(seconds),
            fence_closes_in_seconds: standing.fence_closes_in().map(seconds),
        }
    }
}

impl Queue {
    fn of(vitals: &Vitals) -> Self {
        let stats = vitals.queue.stats();
        let in_work = vitals.queue.in_work().into_iter();
        Self {
            live: stats.live,
            initial: stats.initial,
            delayed: stats.delayed,
            in_work: in_work
                .map(|(key, running)| InWork { key: key.to_string(), seconds: seconds(running) })
                .collect(),
        }
    }
}

impl BackingOff {
    fn of((key, failure): (ObjectKey, Failure)) -> Self {
        Self {
            key: key.to_string(),
            failures: failure.attempts,
            failing_seconds: seconds(failure.since.elapsed()),
            retry_in_seconds: seconds(failure.delay),
        }
    }
}

impl Cache {
    fn of<V: HeapSize + PartialEq>(kind: ByKind, store: &Store<V>, vitals: &Vitals) -> Self {
        Self {
            kind: kind.as_str(),
            objects: store.len(),
            bytes: store_bytes(store),
            is_synced: store.is_synced(),
            age_seconds: seconds(vitals.heard.age(kind.resource())),
        }
    }
}

impl Watch {
    fn of(watch: &WatchState) -> Self {
        Self {
            what: watch.watched.to_string(),
            last_event_seconds: watch.last_event.map(|event| seconds(event.elapsed())),
            problem: watch.problem.as_ref().map(ToString::to_string),
        }
    }
}

/// To the millisecond: more digits only hide the others.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {

    use serde_json::{Value, json};

    use super::*;
    use crate::engine::{Priority, Retry};
    use crate::scene::{checkout, key};

    /// A process in the middle of things.
    async fn busy() -> Value {
        let vitals = Vitals { caches: checkout().with_child().caches(), ..Vitals::idle() };
        vitals.queue.add(key("checkout"), Priority::Live);
        vitals.queue.get().await;
        vitals.queue.add(key("cart"), Priority::Initial);
        vitals.backoff.failed(&key("broken"), Retry::Slowly);
        serde_json::from_str(&state(&vitals)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn keys_in_work_failing_keys_and_caches_are_told() {
        let state = busy().await;
        assert_eq!(state["queue"]["inWork"], json!([{"key": "shop/checkout", "seconds": 0.0}]));
        assert_eq!((&state["queue"]["live"], &state["queue"]["initial"]), (&json!(0), &json!(1)));
        let failing = &state["backOff"]["keys"][0];
        assert_eq!((&state["backOff"]["count"], &failing["failures"]), (&json!(1), &json!(1)));
        assert!(failing["retryInSeconds"].as_f64().unwrap() >= 60.0, "{failing}");
        assert_eq!(state["caches"][1]["objects"], 1);
        assert_eq!(state["lease"]["role"], "leader");
        assert_eq!(state["lease"]["fenceClosesInSeconds"], Value::Null);
    }

    #[tokio::test]
    async fn no_more_than_some_failing_keys_are_listed() {
        let vitals = Vitals::idle();
        for number in 0..=MOST_FAILING {
            vitals.backoff.failed(&key(&number.to_string()), Retry::BackOff);
        }
        let state = State::of(&vitals).back_off;
        assert_eq!((state.count, state.keys.len()), (MOST_FAILING + 1, MOST_FAILING));
    }

    /// Every name of a field in `value`.
    fn names(value: &Value, found: &mut Vec<String>) {
        if let Some(fields) = value.as_object() {
            found.extend(fields.keys().cloned());
        }
        let fields = value.as_object().into_iter().flat_map(|fields| fields.values());
        fields.chain(value.as_array().into_iter().flatten()).for_each(|value| names(value, found));
    }

    #[tokio::test]
    async fn the_reference_names_every_field() {
        let mut state = busy().await;
        let watched = crate::engine::Watched::of::<webservice_api::WebService>(crate::engine::Scope::Cluster);
        let watch = WatchState { watched, last_event: None, problem: None };
        state["watches"] = serde_json::to_value([Watch::of(&watch)]).unwrap();
        let mut found = Vec::new();
        names(&state, &mut found);
        let page = include_str!("../../docs/reference/debug.md");
        for name in found {
            assert!(page.contains(&format!("`{name}`")), "{name} is not explained");
        }
    }
}
