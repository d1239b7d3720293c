use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use futures::stream;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;
use kube::runtime::watcher::watcher;
use kube::{Api, Client};
use tokio::task::JoinHandle;
use tower::service_fn;

use super::*;
use crate::engine::store::Scope;

type Item = watcher::Result<Event<ConfigMap>>;

fn config_map(name: &str, version: &str, value: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        namespace: Some("shop".into()),
        name: Some(name.into()),
        resource_version: Some(version.into()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, data: Some([("value".into(), value.into())].into()), ..ConfigMap::default() }
}

fn value_of(config_map: ConfigMap) -> String {
    config_map.data.and_then(|mut data| data.remove("value")).unwrap_or_default()
}

fn answer(code: u16) -> kube::Error {
    kube::Error::Api(Status { code, message: "the server's words".into(), ..Status::default() }.boxed())
}

fn list_fails(code: u16) -> Item {
    Err(watcher::Error::InitialListFailed(answer(code)))
}

/// A full list of these objects.
fn list(objects: Vec<ConfigMap>) -> Vec<Item> {
    let objects = objects.into_iter().map(Event::InitApply);
    [Event::Init].into_iter().chain(objects).chain([Event::InitDone]).map(Ok).collect()
}

/// Writes down what it is told.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Sink<String> for Recorder {
    fn changed(&self, key: &ObjectKey, priority: Priority, change: &Change<String>) {
        let what = match change {
            Change::Added(new) => format!("+{new}"),
            Change::Updated { old, new } => format!("{old}>{new}"),
            Change::Deleted(old) => format!("-{old}"),
        };
        self.write(format!("{} {what} {priority:?}", key.name()));
    }

    fn observed(&self, key: &ObjectKey) {
        self.write(format!("{} observed", key.name()));
    }

    fn relisted(&self) {
        self.write("relisted".into());
    }

    fn failed(&self, kind: ProblemKind) {
        self.write(format!("failed: {}", kind.as_str()));
    }
}

struct Bed {
    feeder: Arc<Feeder<String>>,
    store: Arc<Store<String>>,
    told: Arc<Recorder>,
}

impl Bed {
    fn new() -> Self {
        let store = Arc::new(Store::new([Scope::Cluster]));
        let told = Arc::new(Recorder::default());
        let sink = Arc::clone(&told) as Arc<dyn Sink<String>>;
        let watched = Watched::of::<ConfigMap>(Scope::Cluster);
        Self { feeder: Arc::new(Feeder::new(watched, Arc::clone(&store), sink)), store, told }
    }

    /// Feeds from watches that yield these items and are silent then; a watch that is begun again gets the
    /// next script.
    fn feed(&self, scripts: Vec<Vec<Item>>) -> JoinHandle<()> {
        let scripts = Mutex::new(scripts.into_iter());
        let feeder = Arc::clone(&self.feeder);
        tokio::spawn(async move {
            let watch =
                || stream::iter(scripts.lock().unwrap().next().unwrap_or_default()).chain(stream::pending());
            feeder.run(watch, value_of, &CancellationToken::new()).await;
        })
    }

    /// What was told once there are so many lines of it.
    async fn told(&self, lines: usize) -> Vec<String> {
        self.until(|bed| bed.told.lines().len() >= lines).await;
        self.told.lines()
    }

    /// Waits, for at most an hour of the paused clock, until `condition` holds.
    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_hours(1), wait).await.expect("the condition never held");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_initial_and_what_follows_is_live() {
    let bed = Bed::new();
    let mut script = list(vec![config_map("a", "1", "x")]);
    script.push(Ok(Event::Apply(config_map("b", "2", "x"))));
    script.push(Ok(Event::Delete(config_map("a", "3", "x"))));
    bed.feed(vec![script]);
    let expected =
        ["a observed", "a +x Initial", "relisted", "b observed", "b +x Live", "a observed", "a -x Live"];
    assert_eq!(bed.told(7).await, expected);
    assert!(bed.store.is_synced());
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_change_is_observed_but_wakes_nobody() {
    let bed = Bed::new();
    let mut script = list(vec![config_map("a", "1", "x")]);
    script.push(Ok(Event::Apply(config_map("a", "2", "x"))));
    script.push(Ok(Event::Apply(config_map("a", "3", "y"))));
    bed.feed(vec![script]);
    let told = bed.told(6).await;
    assert_eq!(told[3..], ["a observed", "a observed", "a x>y Live"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_list_tells_what_was_missed() {
    let bed = Bed::new();
    let mut script = list(vec![config_map("a", "1", "x"), config_map("b", "2", "x")]);
    script.push(Err(watcher::Error::WatchError(Status { code: 410, ..Status::default() }.boxed())));
    script.extend(list(vec![config_map("b", "2", "x"), config_map("c", "5", "x")]));
    bed.feed(vec![script]);
    let told = bed.told(12).await;
    let expected = [
        "failed: expired",
        "b observed",
        "c observed",
        "c +x Initial",
        "a observed",
        "a -x Initial",
        "relisted",
    ];
    assert_eq!(told[5..], expected);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_list_names_the_missing_permission_and_recovers_when_it_is_granted() {
    let bed = Bed::new();
    let mut script = vec![Ok(Event::Init), list_fails(403)];
    script.extend(list(vec![]));
    bed.feed(vec![script]);
    bed.told(1).await;
    let problem = bed.feeder.problem().unwrap();
    assert_eq!(problem.kind, ProblemKind::Forbidden);
    assert_eq!(
        problem.to_string(),
        "failed to list configmaps in all namespaces: not allowed; grant the verb \"list\" on resource \
         \"configmaps\" of API group \"\" by a ClusterRole (the server says: the server's words)"
    );
    bed.until(|bed| bed.store.is_synced()).await;
    assert!(bed.feeder.problem().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_does_not_exist_yet_is_waited_for() {
    let bed = Bed::new();
    let mut script: Vec<Item> = (0..50).flat_map(|_| [Ok(Event::Init), list_fails(404)]).collect();
    script.extend(list(vec![config_map("a", "1", "x")]));
    let began = Instant::now();
    bed.feed(vec![script]);
    bed.told(40).await;
    let problem = bed.feeder.problem().unwrap().to_string();
    assert!(problem.contains("waiting until its CustomResourceDefinition is installed"), "{problem}");
    bed.until(|bed| bed.store.is_synced()).await;
    let pace = began.elapsed() / 50;
    assert!((10..=30).contains(&pace.as_secs()), "one attempt every {pace:?}");
}

#[tokio::test(start_paused = true)]
async fn asking_for_a_list_does_not_end_a_problem() {
    let bed = Bed::new();
    bed.feed(vec![vec![Ok(Event::Init), list_fails(403), Ok(Event::Init)]]);
    bed.told(1).await;
    sleep(Duration::from_secs(2)).await;
    assert!(bed.feeder.problem().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_problem_that_does_not_come_back_is_over_though_no_event_says_so() {
    let bed = Bed::new();
    let mut script = list(vec![]);
    script.push(Err(watcher::Error::WatchStartFailed(answer(500))));
    bed.feed(vec![script]);
    bed.told(2).await;
    assert!(bed.feeder.problem().is_some());
    sleep(PROBLEM_LASTS).await;
    assert!(bed.feeder.problem().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_list_without_progress_is_begun_again() {
    let bed = Bed::new();
    bed.feed(vec![vec![Ok(Event::Init)], list(vec![config_map("a", "1", "x")])]);
    let began = Instant::now();
    assert_eq!(bed.told(4).await, ["failed: stalled", "a observed", "a +x Initial", "relisted"]);
    assert!(began.elapsed() < LIST_STALL + Duration::from_secs(1));
}

/// kube's watcher would ask for a watch from the same expired version for ever.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_for_its_expired_version_begins_anew_with_a_full_list() {
    let bed = Bed::new();
    let mut script = list(vec![config_map("a", "1", "x")]);
    script.push(Err(watcher::Error::WatchStartFailed(answer(410))));
    bed.feed(vec![script, list(vec![])]);
    let told = bed.told(7).await;
    assert_eq!(told[3..], ["failed: expired", "a observed", "a -x Initial", "relisted"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_patience_gets_it() {
    let bed = Bed::new();
    let busy = r#"{"code": 429, "details": {"retryAfterSeconds": 9}}"#;
    let busy: Status = serde_json::from_str(busy).unwrap();
    let busy = watcher::Error::InitialListFailed(kube::Error::Api(busy.boxed()));
    bed.feed(vec![[Err(busy)].into_iter().chain(list(vec![])).collect()]);
    let began = Instant::now();
    assert_eq!(bed.told(2).await, ["failed: throttled", "relisted"]);
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_no_stalled_list() {
    let bed = Bed::new();
    bed.feed(vec![list(vec![])]);
    bed.told(1).await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(bed.told.lines(), ["relisted"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_without_an_ordered_version_does_not_hide_the_others() {
    let bed = Bed::new();
    let mut script = list(vec![config_map("odd", "v1-beta", "x"), config_map("a", "1", "x")]);
    script.push(Ok(Event::Apply(config_map("b", "2", "x"))));
    bed.feed(vec![script]);
    bed.until(|bed| bed.store.len() == 2).await;
    assert_eq!(bed.told.lines()[0], "failed: decode");
}

#[tokio::test(start_paused = true)]
async fn the_feeder_ends_when_it_is_told_to() {
    let bed = Bed::new();
    let stop = CancellationToken::new();
    stop.cancel();
    let run = bed.feeder.run(stream::pending::<Item>, value_of, &stop);
    timeout(Duration::from_secs(1), run).await.unwrap();
}

/// kube's own watcher against a server whose watches say nothing and never end, as behind a connection that
/// died.
#[tokio::test(start_paused = true)]
async fn a_watch_that_died_silently_is_replaced_within_a_minute() {
    let watches = Arc::new(AtomicUsize::new(0));
    let client = Client::new(
        service_fn({
            let watches = Arc::clone(&watches);
            move |request: Request<kube::client::Body>| {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                watches.fetch_add(is_watch.into(), Ordering::Relaxed);
                let body = if is_watch {
                    Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>())
                } else {
                    Body::from(r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#)
                };
                async { Ok::<_, std::io::Error>(Response::new(body)) }
            }
        }),
        "shop",
    );
    let bed = Bed::new();
    let feeder = Arc::clone(&bed.feeder);
    tokio::spawn(async move {
        let watch = || watcher(Api::<ConfigMap>::all(client.clone()), watch_config());
        feeder.run(watch, value_of, &CancellationToken::new()).await;
    });
    bed.until(|_| watches.load(Ordering::Relaxed) == 1).await;
    let died = Instant::now();
    bed.until(|_| watches.load(Ordering::Relaxed) == 2).await;
    assert!(died.elapsed() < Duration::from_mins(1), "noticed after {:?}", died.elapsed());
}

mod pauses {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let mut pause = Pause::new(Instant::now());
        let mut lengths = Vec::new();
        for _ in 0..9 {
            pause = pause.next(Instant::now(), 1.0);
            lengths.push(pause.length().as_millis());
        }
        assert_eq!(lengths, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    }

    #[test]
    fn a_server_that_is_back_and_has_forgotten_the_version_is_asked_for_a_list_at_once() {
        use ProblemKind::{Connection, Expired};
        let mut retries = Retries::new();
        let kinds =
            [Connection, Connection, Connection, Connection, Expired, Expired, Expired, Connection, Expired];
        let pauses = kinds.map(|kind| retries.pause_after(kind, Instant::now(), 1.0).as_millis());
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 500, 16_000, 30_000, 30_000, 500]);
    }

    #[test]
    fn a_calm_minute_ends_the_growth() {
        let mut pause = Pause::new(Instant::now());
        for _ in 0..9 {
            pause = pause.next(Instant::now(), 1.0);
        }
        let over = Instant::now() + pause.length();
        assert_eq!(pause.next(over + Duration::from_secs(59), 1.0).length(), Duration::from_secs(30));
        assert_eq!(pause.next(over + Duration::from_secs(61), 1.0).length(), Duration::from_millis(500));
    }

    proptest! {
        #[test]
        fn a_pause_is_in_the_upper_half_of_its_step(failures in 1..50_usize, jitter in 0.0..1.0_f64) {
            let now = Instant::now();
            let full = (0..failures).fold(Pause::new(now), |pause, _| pause.next(now, 1.0)).length();
            let before = (1..failures).fold(Pause::new(now), |pause, _| pause.next(now, 1.0));
            let length = before.next(now, jitter).length();
            prop_assert!(length >= full / 2 && length <= full);
        }
    }
}

mod complaints {
    use super::*;

    fn problem(code: u16) -> Problem {
        let watched = Watched::of::<ConfigMap>(Scope::Namespace("shop".into()));
        Problem::from_watcher(&watched, &watcher::Error::WatchStartFailed(answer(code)))
    }

    #[test]
    fn a_problem_that_stays_is_told_once_a_minute() {
        let mut complaints = Complaints::default();
        let now = Instant::now();
        assert!(complaints.tell(&problem(403), now));
        assert!(!complaints.tell(&problem(403), now + Duration::from_secs(59)));
        assert!(complaints.tell(&problem(403), now + Duration::from_mins(1)));
    }

    #[test]
    fn a_new_problem_is_told_at_once() {
        let mut complaints = Complaints::default();
        let now = Instant::now();
        assert!(complaints.tell(&problem(403), now));
        assert!(complaints.tell(&problem(404), now));
    }

    #[test]
    fn a_namespaced_watch_asks_for_a_role_in_its_namespace() {
        let text = problem(403).to_string();
        assert!(text.starts_with("failed to watch configmaps in namespace shop: not allowed"), "{text}");
        assert!(text.contains("\"watch\"") && text.contains("a Role in namespace shop"), "{text}");
    }

    #[test]
    fn a_broken_connection_is_told_down_to_its_cause() {
        #[derive(Debug, thiserror::Error)]
        #[error("client error (Connect)")]
        struct NoConnection(#[source] std::io::Error);

        let error = NoConnection(std::io::Error::other("connection refused"));
        let error = watcher::Error::WatchStartFailed(kube::Error::Service(error.into()));
        let text = Problem::from_watcher(&Watched::of::<ConfigMap>(Scope::Cluster), &error).to_string();
        assert!(text.ends_with("client error (Connect): connection refused"), "{text}");
    }

    #[test]
    fn every_kind_of_error_has_a_word_of_its_own() {
        let codes = [401, 403, 404, 410, 429, 500];
        let words = codes.map(|code| problem(code).kind.as_str());
        assert_eq!(words, ["unauthorized", "forbidden", "not_found", "expired", "throttled", "server"]);
        let cut_short = kube::Error::ReadEvents(std::io::ErrorKind::UnexpectedEof.into());
        let unreadable = kube::Error::SerdeError(serde_json::from_str::<()>("{").unwrap_err());
        let kinds = [cut_short, unreadable].map(|error| {
            Problem::from_watcher(
                &Watched::of::<ConfigMap>(Scope::Cluster),
                &watcher::Error::WatchFailed(error),
            )
            .kind
        });
        assert_eq!(kinds, [ProblemKind::Connection, ProblemKind::Decode]);
    }
}
