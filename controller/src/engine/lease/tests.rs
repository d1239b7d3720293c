use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use futures::stream;
use http::Request;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::*;

/// The runtime's clock, which the tests pause.
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A server with one Lease, and the ways in which it can be bad.
#[derive(Default)]
struct Server {
    lease: watch::Sender<Option<Lease>>,
    version: AtomicU64,
    writes: AtomicUsize,
    is_down: AtomicBool,
    /// The next write is carried out but not answered.
    swallows_answer: AtomicBool,
}

impl Server {
    async fn answer<T>(&self, answer: Result<T, LeaseError>) -> Result<T, LeaseError> {
        if self.swallows_answer.swap(false, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        answer
    }

    async fn up(&self) {
        if self.is_down.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    fn store(&self, mut lease: Lease) -> Lease {
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        lease.metadata.resource_version = Some(version.to_string());
        self.lease.send_replace(Some(lease.clone()));
        lease
    }

    /// What a person does with kubectl.
    fn edit(&self, edit: impl FnOnce(&mut Lease)) {
        let mut lease = self.stored();
        edit(&mut lease);
        self.store(lease);
    }

    fn stored(&self) -> Lease {
        self.lease.borrow().clone().expect("there is no lease")
    }

    fn holder(&self) -> String {
        self.stored().spec.unwrap().holder_identity.unwrap()
    }
}

impl LeaseApi for Arc<Server> {
    async fn get(&self) -> Result<Option<Lease>, LeaseError> {
        self.up().await;
        Ok(self.lease.borrow().clone())
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.up().await;
        self.writes.fetch_add(1, Ordering::Relaxed);
        if self.lease.borrow().is_some() {
            return Err(LeaseError::Refused);
        }
        let stored = self.store(lease.clone());
        self.answer(Ok(stored)).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.up().await;
        self.writes.fetch_add(1, Ordering::Relaxed);
        let version =
            self.lease.borrow().as_ref().and_then(|stored| stored.metadata.resource_version.clone());
        if version.is_none() || version != lease.metadata.resource_version {
            return Err(LeaseError::Refused);
        }
        let stored = self.store(lease.clone());
        self.answer(Ok(stored)).await
    }

    fn changes(&self) -> impl Stream<Item = Option<Lease>> + Send + 'static {
        stream::unfold(self.lease.subscribe(), |mut lease| async {
            lease.changed().await.ok()?;
            let seen = lease.borrow_and_update().clone();
            Some((seen, lease))
        })
    }
}

/// A process with an elector, from candidacy to release.
struct Process {
    fence: Fence,
    role: watch::Receiver<Role>,
    stop: CancellationToken,
    /// How the term ended.
    ended: JoinHandle<Result<(), Lost>>,
}

fn start(server: &Arc<Server>, identity: &str) -> Process {
    let clock = Arc::new(TestClock(Instant::now()));
    let mut elector = Elector::new(Settings::new("leader", identity), Arc::clone(server), clock);
    let (fence, role, stop) = (elector.fence(), elector.role(), CancellationToken::new());
    let ended = tokio::spawn({
        let stop = stop.clone();
        async move {
            let ended = if elector.acquire(&stop).await { elector.hold(&stop).await } else { Ok(()) };
            elector.release().await;
            ended
        }
    });
    Process { fence, role, stop, ended }
}

impl Process {
    async fn leads(mut self) -> Self {
        let leads = self.role.wait_for(|role| *role == Role::Leader);
        timeout(Duration::from_mins(10), leads).await.expect("never led").unwrap();
        assert!(self.fence.is_open());
        self
    }

    async fn retires(mut self) -> Self {
        let retires = self.role.wait_for(|role| *role == Role::Retired);
        timeout(Duration::from_mins(10), retires).await.expect("never retired").unwrap();
        assert!(!self.fence.is_open());
        self
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(Duration::from_mins(1), self.ended).await.expect("never stopped").unwrap().unwrap();
        assert!(!self.fence.is_open());
    }

    /// Ends without a word.
    fn kill(self) {
        self.ended.abort();
    }

    async fn lost(self) -> Lost {
        let lost =
            timeout(Duration::from_mins(1), self.ended).await.expect("never lost").unwrap().unwrap_err();
        assert!(!self.fence.is_open());
        lost
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_creates_the_lease() {
    let server = Arc::new(Server::default());
    let _a = start(&server, "a").leads().await;
    let spec = server.stored().spec.unwrap();
    assert_eq!(server.stored().metadata.name.as_deref(), Some("leader"));
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    assert!(spec.acquire_time.is_some() && spec.renew_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_times_in_the_lease_have_six_digits() {
    let server = Arc::new(Server::default());
    let _a = start(&server, "a").leads().await;
    let json = serde_json::to_value(server.stored()).unwrap();
    let time = json["spec"]["renewTime"].as_str().unwrap();
    let fraction = time.split_once('.').unwrap().1;
    assert!(fraction.len() == 7 && fraction.ends_with('Z'), "{time}");
}

#[tokio::test(start_paused = true)]
async fn a_healthy_holder_renews_every_five_seconds() {
    let server = Arc::new(Server::default());
    let _a = start(&server, "a").leads().await;
    let before = server.writes.load(Ordering::Relaxed);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(server.writes.load(Ordering::Relaxed) - before, 12);
    let spec = server.stored().spec.unwrap();
    assert_eq!(spec.lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_standby_follows_a_release_at_once() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    let b = start(&server, "b");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(*b.role.borrow(), Role::Standby { holder: Some("a".into()) });
    let began = Instant::now();
    a.stop().await;
    let _b = b.leads().await;
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(server.stored().spec.unwrap().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_standby_follows_a_death_when_the_lease_expires_and_not_before() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    let b = start(&server, "b");
    sleep(Duration::from_millis(30_001)).await;
    let renewed = Instant::now();
    a.kill();
    let _b = b.leads().await;
    let waited = renewed.elapsed().as_secs_f64();
    assert!((14.9..15.1).contains(&waited), "took over after {waited} s");
}

#[tokio::test(start_paused = true)]
async fn the_times_of_other_clocks_do_not_matter() {
    for wall in [0, 4_000_000_000] {
        let server = Arc::new(Server::default());
        let a = start(&server, "a").leads().await;
        a.kill();
        server.edit(|lease| {
            let wall = Timestamp::from_second(wall).unwrap();
            let spec = lease.spec.as_mut().unwrap();
            spec.renew_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(wall));
        });
        let began = Instant::now();
        let b = start(&server, "b").leads().await;
        let waited = began.elapsed().as_secs_f64();
        assert!((14.9..15.1).contains(&waited), "took over after {waited} s");
        b.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_before_others_may_follow() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    let acquired = Instant::now();
    server.is_down.store(true, Ordering::Relaxed);
    let a = a.retires().await;
    let held = acquired.elapsed().as_secs_f64();
    assert!((9.9..10.1).contains(&held), "held for {held} s");
    assert_eq!(a.lost().await, Lost::NotRenewed);
}

#[tokio::test(start_paused = true)]
async fn the_fence_closes_although_nobody_runs() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    let fence = a.fence.clone();
    a.kill();
    sleep(Duration::from_millis(9_900)).await;
    assert!(fence.is_open());
    sleep(Duration::from_millis(200)).await;
    assert!(!fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_does_not_end_a_term() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    server.is_down.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(7)).await;
    server.is_down.store(false, Ordering::Relaxed);
    sleep(Duration::from_mins(1)).await;
    assert!(a.fence.is_open());
    assert_eq!(*a.role.borrow(), Role::Leader);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_written_out_of_its_lease_stops_at_once() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    sleep(Duration::from_secs(7)).await;
    let began = Instant::now();
    server.edit(|lease| lease.spec.as_mut().unwrap().holder_identity = Some("b".into()));
    assert_eq!(a.lost().await, Lost::TakenBy("b".into()));
    assert!(began.elapsed() < Duration::from_millis(100));
    assert_eq!(server.holder(), "b", "the release took the lease away from another");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_created_again_by_its_holder() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    let b = start(&server, "b");
    sleep(Duration::from_secs(7)).await;
    server.lease.send_replace(None);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(server.holder(), "a");
    assert!(a.fence.is_open() && !b.fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_was_not_answered_is_recognised() {
    let server = Arc::new(Server::default());
    server.swallows_answer.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let _a = start(&server, "a").leads().await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_was_not_answered_is_given_back_at_shutdown() {
    let server = Arc::new(Server::default());
    server.swallows_answer.store(true, Ordering::Relaxed);
    let a = start(&server, "a");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.holder(), "a");
    a.stop().await;
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn what_others_put_on_the_lease_stays() {
    let server = Arc::new(Server::default());
    let a = start(&server, "a").leads().await;
    server.edit(|lease| {
        lease.metadata.labels = Some([("team".to_owned(), "shop".to_owned())].into());
        lease.spec.as_mut().unwrap().strategy = Some("OldestEmulationVersion".into());
    });
    sleep(Duration::from_secs(30)).await;
    assert!(a.fence.is_open());
    let lease = server.stored();
    assert_eq!(lease.metadata.labels.unwrap()["team"], "shop");
    assert_eq!(lease.spec.unwrap().strategy.as_deref(), Some("OldestEmulationVersion"));
}

#[tokio::test(start_paused = true)]
async fn two_processes_on_one_host_have_two_identities() {
    assert_ne!(unique_identity("node"), unique_identity("node"));
}

mod requests {
    use super::*;

    /// A clock that only the test moves, as if the process were not running meanwhile.
    #[derive(Default)]
    struct HandClock(AtomicU64);

    impl Clock for HandClock {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }
    }

    /// Sends a request that takes this long; gives whether it was answered, and whether it was sent.
    async fn request(fence: &Fence, takes: Duration) -> (bool, bool) {
        let sent = Arc::new(AtomicBool::new(false));
        let server = service_fn({
            let sent = Arc::clone(&sent);
            move |_: Request<()>| {
                let sent = Arc::clone(&sent);
                async move {
                    sent.store(true, Ordering::Relaxed);
                    sleep(takes).await;
                    Ok::<_, std::io::Error>(())
                }
            }
        });
        let mut client = FenceLayer(fence.clone()).layer(server);
        let answer = client.ready().await.unwrap().call(Request::new(())).await;
        if let Err(error) = &answer {
            assert!(error.is::<Fenced>(), "{error}");
        }
        (answer.is_ok(), sent.load(Ordering::Relaxed))
    }

    fn fence(closes: Duration) -> Fence {
        let fence = Fence::new(Arc::new(TestClock(Instant::now())));
        fence.open_until(closes);
        fence
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_inside_the_fence_is_answered() {
        let fence = fence(Duration::from_secs(10));
        assert_eq!(request(&fence, Duration::from_secs(1)).await, (true, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_outside_the_fence_is_not_sent() {
        let closed = Fence::new(Arc::new(TestClock(Instant::now())));
        assert_eq!(request(&closed, Duration::ZERO).await, (false, false));
        let past = fence(Duration::from_secs(10));
        sleep(Duration::from_secs(10)).await;
        assert_eq!(request(&past, Duration::ZERO).await, (false, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_ends_with_the_term_that_it_began_in() {
        let fence = fence(Duration::from_secs(3));
        let began = Instant::now();
        assert_eq!(request(&fence, Duration::from_mins(1)).await, (false, true));
        assert_eq!(began.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_ends_after_four_seconds_at_the_latest() {
        let fence = fence(Duration::from_secs(10));
        let began = Instant::now();
        assert_eq!(request(&fence, Duration::from_mins(1)).await, (false, true));
        assert_eq!(began.elapsed().as_secs(), LONGEST_REQUEST.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_slept_sends_nothing_when_it_wakes() {
        let clock = Arc::new(HandClock::default());
        let fence = Fence::new(Arc::clone(&clock) as Arc<dyn Clock>);
        fence.open_until(Duration::from_secs(10));
        let steps = Arc::new(Mutex::new(Vec::new()));
        let server = service_fn({
            let steps = Arc::clone(&steps);
            move |_: Request<()>| {
                let (steps, clock) = (Arc::clone(&steps), Arc::clone(&clock));
                async move {
                    steps.lock().unwrap().push("connected");
                    // Stopped here for a while; the runtime's timers know nothing of it.
                    clock.0.store(20, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    steps.lock().unwrap().push("sent");
                    Ok::<_, std::io::Error>(())
                }
            }
        });
        let mut client = FenceLayer(fence).layer(server);
        let answer = client.ready().await.unwrap().call(Request::new(())).await;
        assert!(answer.unwrap_err().is::<Fenced>());
        assert_eq!(*steps.lock().unwrap(), ["connected"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_that_is_closed_drops_what_runs() {
        let fence = fence(Duration::from_secs(10));
        let closes = async {
            sleep(Duration::from_secs(1)).await;
            fence.close();
        };
        let (answer, ()) = tokio::join!(request(&fence, Duration::from_secs(2)), closes);
        assert_eq!(answer, (false, true));
    }

    #[test]
    fn the_boot_clock_runs() {
        let before = BootClock.now();
        assert!(before > Duration::ZERO);
        assert!(BootClock.now() >= before);
    }
}
