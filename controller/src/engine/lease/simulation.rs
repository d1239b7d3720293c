//! Candidates with clocks of their own, pauses, deaths and a bad network, against a server that compares
//! versions.
//!
//! Everything happens in steps of true time that no candidate knows. The property: however it goes, at most
//! one fence is open.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;

use super::{Election, Settings, Step};

const TICK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_millis(2_500);

#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
    /// All states that there were: what a watch or a lagging cache may still deliver.
    history: Vec<Option<Lease>>,
}

enum Answer {
    Seen(Option<Lease>),
    Written(Lease),
    Refused,
}

impl Server {
    fn serve(&mut self, request: &Step) -> Answer {
        match (request, &self.lease) {
            (Step::Look, _) => Answer::Seen(self.lease.clone()),
            (Step::Create(lease), None) => self.store(lease),
            (Step::Replace(lease), Some(stored))
                if lease.metadata.resource_version == stored.metadata.resource_version =>
            {
                self.store(lease)
            }
            _ => Answer::Refused,
        }
    }

    fn store(&mut self, lease: &Lease) -> Answer {
        self.version += 1;
        let mut lease = lease.clone();
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        self.history.push(self.lease.clone());
        Answer::Written(lease)
    }

    fn delete(&mut self) {
        self.lease = None;
        self.history.push(None);
    }
}

struct Request {
    step: Step,
    /// On the candidate's clock.
    sent: Duration,
    arrives: Duration,
    answered: Duration,
    is_release: bool,
    answer: Option<Answer>,
}

/// One process. Its clock starts anywhere and runs at its own speed.
struct Candidate {
    election: Election,
    offset: Duration,
    speed: f64,
    fence: Duration,
    paused_until: Duration,
    request: Option<Request>,
}

impl Candidate {
    fn new(identity: u64, rng: &mut fastrand::Rng) -> Self {
        Self {
            election: Election::new(Settings::new("leader", identity.to_string())),
            offset: Duration::from_secs(rng.u64(0..10_000)),
            speed: 0.9 + 0.2 * rng.f64(),
            fence: Duration::ZERO,
            paused_until: Duration::ZERO,
            request: None,
        }
    }

    fn clock(&self, now: Duration) -> Duration {
        self.offset + now.mul_f64(self.speed)
    }

    fn may_act(&self, now: Duration) -> bool {
        self.clock(now) < self.fence
    }

    /// Takes the answer that has arrived, if any. False when the process ends.
    fn receive(&mut self, now: Duration, rng: &mut fastrand::Rng) -> bool {
        let clock = self.clock(now);
        let is_over = |request: &Request| request.answered <= now || clock >= request.sent + PATIENCE;
        let Some(request) = self.request.take_if(|request| is_over(request)) else {
            return true;
        };
        if request.is_release {
            return false;
        }
        match request.answer {
            Some(answer) if request.answered <= now => match answer {
                Answer::Seen(lease) => self.election.saw(lease, clock),
                Answer::Written(lease) => {
                    self.election.wrote(lease, request.sent);
                    self.fence = self.election.term_ends().unwrap();
                }
                Answer::Refused => self.election.refused(clock),
            },
            _ => self.election.failed(clock, rng.f64()),
        }
        true
    }

    /// Does what the election says. False when the process ends.
    fn act(&mut self, now: Duration, network: &Network, rng: &mut fastrand::Rng) -> bool {
        if self.request.is_some() {
            return true;
        }
        let clock = self.clock(now);
        if self.may_act(now) && rng.f64() < network.releases {
            self.fence = Duration::ZERO;
            if let Some(lease) = self.election.release(Timestamp::UNIX_EPOCH) {
                self.request = Some(network.send(Step::Replace(lease), true, now, clock, rng));
            }
            return self.request.is_some();
        }
        // The time in the Lease is nonsense on purpose.
        let wall = Timestamp::from_second(rng.i64(0..2_000_000_000)).unwrap();
        match self.election.decide(clock, wall) {
            Step::WaitUntil(_) => true,
            Step::Lost(_) => false,
            step => {
                if step != Step::Look {
                    self.election.sending();
                }
                self.request = Some(network.send(step, false, now, clock, rng));
                true
            }
        }
    }
}

/// How bad it is; probabilities per tick or per message.
#[derive(Clone, Copy, Debug)]
struct Network {
    loss: f64,
    delay: Duration,
    pauses: f64,
    deaths: f64,
    releases: f64,
    /// Whether a process that ends is followed by a new one, which knows nothing.
    restarts: bool,
}

const CALM: Network = Network {
    loss: 0.0,
    delay: Duration::from_millis(100),
    pauses: 0.0,
    deaths: 0.0,
    releases: 0.0,
    restarts: true,
};

impl Network {
    fn send(
        &self,
        step: Step,
        is_release: bool,
        now: Duration,
        sent: Duration,
        rng: &mut fastrand::Rng,
    ) -> Request {
        let mut arrival = |from: Duration| {
            if rng.f64() < self.loss { Duration::MAX } else { from + self.delay.mul_f64(rng.f64()) }
        };
        let arrives = arrival(now);
        let answered = if arrives == Duration::MAX { arrives } else { arrival(arrives) };
        Request { step, sent, arrives, answered, is_release, answer: None }
    }
}

struct World {
    server: Server,
    candidates: Vec<Candidate>,
    now: Duration,
    born: u64,
    rng: fastrand::Rng,
    /// Requests of dead candidates that are still under way.
    orphans: Vec<Request>,
}

impl World {
    fn new(seed: u64, candidates: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let candidates_ = (0..candidates).map(|identity| Candidate::new(identity, &mut rng)).collect();
        Self {
            server: Server::default(),
            candidates: candidates_,
            now: Duration::ZERO,
            born: candidates,
            rng,
            orphans: Vec::new(),
        }
    }

    fn run(&mut self, network: &Network, time: Duration) {
        let ends = self.now + time;
        while self.now < ends {
            self.now += TICK;
            self.serve();
            for index in 0..self.candidates.len() {
                self.step(index, network);
            }
            assert!(self.leaders() <= 1, "{} leaders at {:?}", self.leaders(), self.now);
        }
    }

    fn leaders(&self) -> usize {
        self.candidates.iter().filter(|candidate| candidate.may_act(self.now)).count()
    }

    fn serve(&mut self) {
        let requests = self.candidates.iter_mut().filter_map(|candidate| candidate.request.as_mut());
        for request in requests.chain(&mut self.orphans) {
            if request.arrives <= self.now && request.answer.is_none() {
                request.answer = Some(self.server.serve(&request.step));
            }
        }
        self.orphans.retain(|request| request.answer.is_none() && request.arrives != Duration::MAX);
    }

    fn step(&mut self, index: usize, network: &Network) {
        let (now, rng) = (self.now, &mut self.rng);
        let candidate = &mut self.candidates[index];
        if now < candidate.paused_until {
            return;
        }
        if rng.f64() < network.pauses {
            candidate.paused_until = now + Duration::from_secs(40).mul_f64(rng.f64());
            return;
        }
        // A watch that may lag, anywhere.
        if rng.f64() < 0.1 && candidate.request.is_none() {
            let lag = if rng.bool() { 0 } else { rng.usize(0..5) };
            if let Some(seen) = self.server.history.iter().rev().nth(lag) {
                candidate.election.saw(seen.clone(), candidate.clock(now));
            }
        }
        let lives =
            rng.f64() >= network.deaths && candidate.receive(now, rng) && candidate.act(now, network, rng);
        if !lives && !network.restarts {
            candidate.paused_until = Duration::MAX;
            self.orphans.extend(candidate.request.take());
        } else if !lives {
            let successor = Candidate::new(self.born, rng);
            self.born += 1;
            self.orphans.extend(std::mem::replace(candidate, successor).request);
        }
    }
}

fn bad_network() -> impl Strategy<Value = Network> {
    (0.0..0.5_f64, 0..6_000_u64, 0.0..0.01_f64, 0.0..0.005_f64, 0.0..0.005_f64).prop_map(
        |(loss, delay, pauses, deaths, releases)| Network {
            loss,
            delay: Duration::from_millis(delay),
            pauses,
            deaths,
            releases,
            restarts: true,
        },
    )
}

proptest! {
    #[test]
    fn there_are_never_two_leaders_and_in_the_end_there_is_one(
        seed in any::<u64>(),
        candidates in 2..4_u64,
        network in bad_network(),
    ) {
        let mut world = World::new(seed, candidates);
        world.run(&network, Duration::from_mins(2));
        world.run(&CALM, Duration::from_mins(2));
        prop_assert_eq!(world.leaders(), 1);
    }

    /// Nobody restarts here: a process that has never seen the Lease cannot know that there was one.
    #[test]
    fn deleting_the_lease_does_not_make_two_leaders(
        seed in any::<u64>(),
        network in bad_network(),
        seconds_before in 0..60_u64,
    ) {
        let mut world = World::new(seed, 4);
        let network = Network { restarts: false, ..network };
        world.run(&CALM, Duration::from_secs(30));
        world.run(&network, Duration::from_secs(seconds_before));
        world.server.delete();
        world.run(&network, Duration::from_mins(1));
    }
}
