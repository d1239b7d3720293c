//! Whatever happens, in whatever order: no API server ever meets a leaf that it does not trust.
//!
//! Time is simulated. API servers act on what a registration was at any moment of the last minute, pods serve what the Secret was at
//! any moment of the last 77 s. Meanwhile leaders come and go, writes fail, people ask for new certificates and break what they
//! can reach.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;
use proptest::prelude::*;
use webservice_certs::{CERTIFICATE_FILE, KEY_FILE};

use super::super::secret::{self, CA_KEY, ROTATE};
use super::super::state::Found;
use super::*;
use crate::registration::{Kind, Registration};

const START: Timestamp = Timestamp::constant(1_800_000_000, 0);
/// How far an API server may lag behind a registration, in seconds.
const API_SERVER_LAG: i64 = 60;
/// How far a pod may lag behind its Secret, in seconds, with the kubelet's defaults.
const POD_LAG: i64 = 77;
/// A leader that is left alone comes to rest at least that often, in seconds.
const LONGEST_TROUBLE: i64 = 600;
/// Between two looks at the world, in seconds.
const TICK: i64 = 30;

fn terms() -> Terms {
    Terms {
        service: "webhook".to_owned(),
        namespace: "shop".to_owned(),
        ca_lifetime: SignedDuration::from_hours(3),
        leaf_lifetime: SignedDuration::from_hours(1),
        overlap: Duration::from_secs(API_SERVER_LAG.unsigned_abs()),
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Time {
        seconds: i64,
    },
    /// A pass of which only so many writes succeed.
    Pass {
        writes: usize,
    },
    /// Another leader: it has seen nothing yet.
    Succession,
    Asked {
        for_ca: bool,
    },
    Lost {
        is_ca: bool,
    },
    Broken {
        is_ca: bool,
        key: &'static str,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let key = prop::sample::select(vec![CERTIFICATE_FILE, KEY_FILE, CA_KEY]);
    prop_oneof![
        5 => (1..120_i64).prop_map(|seconds| Happening::Time { seconds }),
        2 => (120..3600_i64).prop_map(|seconds| Happening::Time { seconds }),
        6 => Just(Happening::Pass { writes: usize::MAX }),
        2 => (0..4_usize).prop_map(|writes| Happening::Pass { writes }),
        1 => Just(Happening::Succession),
        2 => any::<bool>().prop_map(|for_ca| Happening::Asked { for_ca }),
        1 => any::<bool>().prop_map(|is_ca| Happening::Lost { is_ca }),
        1 => (any::<bool>(), key).prop_map(|(is_ca, key)| Happening::Broken { is_ca, key }),
    ]
}

/// What something was, and from when on.
type History = Vec<(i64, Vec<u8>)>;

/// All that it was at some moment of the last `lag` seconds.
fn recent(history: &History, now: i64, lag: i64) -> &[(i64, Vec<u8>)] {
    let first = history.iter().rposition(|(since, _)| *since <= now - lag).unwrap_or(0);
    &history[first..]
}

struct World {
    now: i64,
    found: Found,
    trusted: Option<(Bundle, i64)>,
    rested: i64,
    /// The `caBundle` of both.
    published: [History; 2],
    /// Leaves that could be served: a pod keeps the last good one.
    leaves: History,
}

impl World {
    /// After the first pass.
    fn new() -> Self {
        let registration = |kind| Registration { kind, bundles: vec![Vec::new()], version: String::new() };
        let found = Found { registrations: Kind::ALL.map(registration).into(), ..Found::default() };
        let published = [Vec::new(), Vec::new()];
        let mut world = Self { now: 0, found, trusted: None, rested: 0, published, leaves: Vec::new() };
        world.pass(usize::MAX);
        world
    }

    fn timestamp(&self) -> Timestamp {
        START + SignedDuration::from_secs(self.now)
    }

    fn secret(&mut self, is_ca: bool) -> &mut Option<Secret> {
        if is_ca { &mut self.found.ca } else { &mut self.found.leaf }
    }

    fn happen(&mut self, happening: &Happening) {
        match *happening {
            Happening::Time { seconds } => self.go_on(seconds),
            Happening::Pass { writes } => self.pass(writes),
            Happening::Succession => self.trusted = None,
            Happening::Asked { for_ca } => {
                let what = if for_ca { secret::ROTATE_CA } else { secret::ROTATE_LEAF };
                if let Some(asked) = self.secret(for_ca) {
                    asked.annotations_mut().insert(ROTATE.into(), what.into());
                }
            }
            Happening::Lost { is_ca } => *self.secret(is_ca) = None,
            Happening::Broken { is_ca, key } => {
                if let Some(broken) = self.secret(is_ca) {
                    let garbage = ByteString(b"-----BEGIN CERTIFICATE-----\noops".to_vec());
                    broken.data.get_or_insert_default().insert(key.into(), garbage);
                }
            }
        }
    }

    fn go_on(&mut self, seconds: i64) {
        let end = self.now + seconds;
        while self.now < end {
            self.now = end.min(self.now + TICK);
            self.check();
            if self.now - self.rested > LONGEST_TROUBLE {
                self.pass(usize::MAX);
            }
        }
    }

    fn trusted_for(&mut self) -> Duration {
        match (self.found.trusted_ca(), &self.trusted) {
            (Some(ca), Some((before, since))) if ca == *before => {
                Duration::from_secs((self.now - since).unsigned_abs())
            }
            (other, _) => {
                self.trusted = other.map(|ca| (ca, self.now));
                Duration::ZERO
            }
        }
    }

    fn pass(&mut self, writes: usize) {
        for write in 0.. {
            assert!(write < 10, "no rest: {:?}", self.found.state(Duration::ZERO));
            let trusted_for = self.trusted_for();
            let state = self.found.state(trusted_for);
            let step = plan(&state, &terms(), self.timestamp());
            if let Step::Rest { until_due } = step {
                self.rested = if until_due.is_none() { self.now } else { self.rested };
                return;
            }
            if write >= writes {
                return;
            }
            self.write(step, &state);
            self.check();
        }
    }

    fn write(&mut self, step: Step, state: &State) {
        let (now, terms) = (self.timestamp(), terms());
        match step {
            Step::MakeCa { .. } => {
                let (_, fields) = secret::new_ca(&terms, &state.known, now).unwrap();
                self.found.ca = Some(secret::with(self.found.ca.take(), "ca", fields));
            }
            Step::Remember(trusted) => {
                let fields = vec![(CA_KEY, trusted.to_pem())];
                self.found.ca = Some(secret::with(self.found.ca.take(), "ca", fields));
            }
            Step::Publish { registration, bundle } => {
                let pem = bundle.to_pem().into_bytes();
                self.published[registration].push((self.now, pem.clone()));
                self.found.registrations[registration].bundles = vec![pem];
            }
            Step::IssueLeaf { .. } => {
                let (_, fields) = secret::new_leaf(&terms, state.ca.as_ref().unwrap(), now).unwrap();
                self.leaves.push((self.now, fields[0].1.clone().into()));
                self.found.leaf = Some(secret::with(self.found.leaf.take(), "tls", fields));
            }
            Step::Rest { .. } => unreachable!(),
        }
    }

    /// Every API server trusts every pod.
    fn check(&self) {
        let host = terms().host();
        for (served, leaf) in recent(&self.leaves, self.now, POD_LAG) {
            let published =
                self.published.iter().flat_map(|history| recent(history, self.now, API_SERVER_LAG));
            for (since, bundle) in published {
                let verdict = Bundle::readable(bundle).vouches_for(leaf, &host, self.timestamp());
                assert_eq!(verdict, Ok(()), "leaf of {served} s, bundle of {since} s, at {} s", self.now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_api_server_meets_a_leaf_that_it_does_not_trust(story in prop::collection::vec(happening(), 1..60)) {
        let mut world = World::new();
        for happening in &story {
            world.happen(happening);
        }
    }
}

#[test]
fn left_alone_for_a_week_it_renews_everything_in_time_and_forgets_what_is_over() {
    let mut world = World::new();
    for _ in 0..7 * 24 {
        world.go_on(3600);
    }
    let state = world.found.state(Duration::ZERO);
    assert!(world.leaves.len() > 7 * 24, "{} leaves", world.leaves.len());
    assert!(world.published[0].len() > 2 * 7 * 8, "{} bundles", world.published[0].len());
    assert!(Bundle::readable(&state.remembered).certificates().len() <= 2);
}
