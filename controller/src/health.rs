//! When the process should be started anew (`/livez`), and when it does what it is there for (`/readyz`).

use std::time::Duration;

use webservice_ops::probes::Check;

use crate::engine::lease::Role;
use crate::engine::workers::Limits;
use crate::engine::{QueueStats, Store};
use crate::vitals::Vitals;

/// Longer than it takes until a watch is taken up again, which is heard of even where nothing happens.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(75);

/// Whether the process is beyond help from the inside. An API server that is down is not: no restart brings it back.
#[must_use]
pub fn alive(vitals: &Vitals, limits: &Limits) -> Vec<Check> {
    let (queue, most) = (vitals.queue.clone(), stuck_after(limits));
    vec![Check::telling("workers", move || working(&queue.stats(), most))]
}

/// Every pass is dropped at its deadline, so one that runs on blocks its thread.
fn stuck_after(limits: &Limits) -> Duration {
    2 * limits.pass
}

fn working(stats: &QueueStats, most: Duration) -> Result<String, String> {
    let QueueStats { processing, longest_running, .. } = stats;
    let told = format!("{processing} passes run, the longest for {} s", longest_running.as_secs());
    if *longest_running < most { Ok(told) } else { Err(format!("a worker is stuck: {told}")) }
}

/// Whether the controller works or could take over at once.
#[must_use]
pub fn ready(vitals: &Vitals) -> Vec<Check> {
    let checked = |name, check: fn(&Vitals) -> Result<String, String>| {
        let vitals = vitals.clone();
        Check::telling(name, move || check(&vitals))
    };
    vec![
        checked("cache-webservices", |vitals| synced(&vitals.caches.webservices)),
        checked("cache-configmaps", |vitals| synced(&vitals.caches.children)),
        checked("watches", watching),
        checked("api-reachable", |vitals| reachable(vitals.heard.silence())),
        checked("leader-election", |vitals| standing(&vitals.standing.role())),
    ]
}

fn synced<V: PartialEq>(store: &Store<V>) -> Result<String, String> {
    let missing: Vec<_> = store.unsynced().iter().map(ToString::to_string).collect();
    if missing.is_empty() {
        return Ok(format!("{} objects", store.len()));
    }
    Err(format!("the first full list is not complete of {}", missing.join(", ")))
}

fn watching(vitals: &Vitals) -> Result<String, String> {
    let problems = vitals.watches.states().filter_map(|watch| watch.problem);
    let told: Vec<_> = problems.map(|problem| problem.to_string()).collect();
    if told.is_empty() { Ok(String::new()) } else { Err(told.join("; ")) }
}

fn reachable(silence: Duration) -> Result<String, String> {
    let state = format!("{} s ago", silence.as_secs());
    if silence <= LONGEST_SILENCE {
        Ok(format!("last answer {state}"))
    } else {
        Err(format!("the API server's last answer came {state}; see that it runs and can be reached"))
    }
}

fn standing(role: &Role) -> Result<String, String> {
    match role {
        Role::Leader => Ok("leading".into()),
        Role::Standby { holder: Some(holder) } => Ok(format!("standing by; {holder} leads")),
        Role::Standby { holder: None } => Ok("standing by; nobody is known to lead".into()),
        Role::Retired => Err("the lease was lost; the process is about to end".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Scope;

    #[test]
    fn a_pass_beyond_its_deadline_is_a_stuck_worker() {
        let limits = Limits { pass: Duration::from_secs(30), ..Limits::default() };
        let running = |seconds| QueueStats {
            processing: 1,
            longest_running: Duration::from_secs(seconds),
            ..QueueStats::default()
        };
        let most = stuck_after(&limits);
        assert_eq!(working(&running(31), most), Ok("1 passes run, the longest for 31 s".into()));
        assert!(working(&running(60), most).unwrap_err().starts_with("a worker is stuck"));
    }

    #[test]
    fn a_scope_whose_list_is_missing_is_named() {
        let scopes = ["a", "b"].map(|name| Scope::Namespace(name.into()));
        let store = Store::<u8>::new(scopes.clone());
        store.begin_list(&scopes[0]);
        store.end_list(&scopes[0]);
        let told = "the first full list is not complete of namespace b";
        assert_eq!(synced(&store), Err(told.into()));
        store.end_list(&scopes[1]);
        assert!(synced(&store).is_err(), "it never began");
        store.begin_list(&scopes[1]);
        store.end_list(&scopes[1]);
        assert_eq!(synced(&store), Ok("0 objects".into()));
    }

    #[test]
    fn a_server_that_was_silent_for_longer_than_a_watch_is_not_reachable() {
        assert_eq!(reachable(LONGEST_SILENCE), Ok("last answer 75 s ago".into()));
        assert!(reachable(LONGEST_SILENCE + Duration::from_secs(1)).unwrap_err().contains("76 s ago"));
    }

    #[test]
    fn who_leads_and_who_stands_by_is_told() {
        assert_eq!(standing(&Role::Leader), Ok("leading".into()));
        let standby = Role::Standby { holder: Some("other".into()) };
        assert_eq!(standing(&standby), Ok("standing by; other leads".into()));
        assert!(standing(&Role::Retired).is_err());
    }

    #[tokio::test]
    async fn a_process_with_nothing_to_do_is_alive() {
        let vitals = Vitals::idle();
        let router = webservice_ops::probes::router(alive(&vitals, &Limits::default()), ready(&vitals));
        let request = http::Request::get("/livez").body(axum::body::Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}
