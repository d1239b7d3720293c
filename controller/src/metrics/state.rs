//! What is read when it is asked for: it changes by itself, or has its home elsewhere.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use webservice_api::conditions::{self, READY};
use webservice_ops::metrics::write;

use super::{CONTROLLER, KINDS};
use crate::engine::lease::Role;
use crate::leadership::LEASE;
use crate::records::WebServiceRecord;
use crate::sizes::{object_bytes, store_bytes};
use crate::vitals::Vitals;

#[derive(Clone, Copy, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByQueue {
    name: &'static str,
    controller: &'static str,
}

#[derive(Clone, Copy, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByElection {
    name: &'static str,
}

#[derive(Clone, Copy, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByReady {
    ready: &'static str,
}

const QUEUE: ByQueue = ByQueue { name: CONTROLLER, controller: CONTROLLER };
/// The values of the label `ready`; what is none of them counts as the last.
const READY_STATES: [&str; 3] = ["True", "False", "Unknown"];

/// See the [module](self).
#[derive(Debug)]
pub struct State(pub Vitals);

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_queue(&mut encoder)?;
        self.encode_caches(&mut encoder)?;
        self.encode_watches(&mut encoder)?;
        let leads = i64::from(self.0.standing.role() == Role::Leader);
        let help = "1 while this process leads, else 0";
        gauges(&mut encoder, "leader_election_master_status", help, [(ByElection { name: LEASE }, leads)])
    }
}

impl State {
    fn encode_queue(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.queue.stats();
        let help = "Time that running passes took so far, added up";
        let seconds = [(QUEUE, stats.unfinished_work.as_secs_f64())];
        gauges(encoder, "workqueue_unfinished_work_seconds", help, seconds)?;
        let help = "Time that the longest running pass took so far";
        let seconds = [(QUEUE, stats.longest_running.as_secs_f64())];
        gauges(encoder, "workqueue_longest_running_processor_seconds", help, seconds)?;
        let help = "WebServices whose last pass failed: each waits for its next try";
        write(encoder, "webservice_failing_objects", help, &ConstGauge::new(signed(self.0.backoff.len())))?;
        let help = "Own writes that no watch showed in time; the pass went on without";
        write(encoder, "webservice_own_writes_expired", help, &ConstCounter::new(self.0.own_writes.expired()))
    }

    fn encode_caches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let census = self.census();
        let ready = READY_STATES.map(|ready| ByReady { ready }).into_iter().zip(census.by_ready.map(signed));
        gauges(encoder, "webservice_objects", "WebServices, by the state of their Ready condition", ready)?;
        let children = &self.0.caches.children;
        let objects = KINDS.into_iter().zip([self.0.caches.webservices.len(), children.len()].map(signed));
        gauges(encoder, "webservice_cache_objects", "Objects in the caches", objects)?;
        let bytes = KINDS.into_iter().zip([census.bytes, store_bytes(children)].map(signed));
        let help = "Bytes that the objects in the caches take: keys, values and their texts";
        gauges(encoder, "webservice_cache_bytes", help, bytes)
    }

    fn encode_watches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let heard = &self.0.heard;
        let ages = KINDS.map(|kind| (kind, heard.age(kind.resource()).as_secs_f64()));
        let help = "Time since the API server last sent anything on the watches, be it a bookmark";
        gauges(encoder, "webservice_cache_age_seconds", help, ages)?;
        let kind = ConstCounter::new(0_u64).metric_type();
        let help = "Watches begun; each ends within a minute";
        let mut family = encoder.encode_descriptor("webservice_watch_starts", help, None, kind)?;
        KINDS.iter().try_for_each(|kind| {
            ConstCounter::new(heard.begun(kind.resource())).encode(family.encode_family(kind)?)
        })
    }

    /// One walk through the WebServices.
    fn census(&self) -> Census {
        let mut census = Census::default();
        self.0.caches.webservices.for_each(|key, record| {
            census.by_ready[ready_state(record)] += 1;
            census.bytes += object_bytes(key, record);
        });
        census
    }
}

#[derive(Default)]
struct Census {
    by_ready: [usize; READY_STATES.len()],
    bytes: usize,
}

fn ready_state(record: &WebServiceRecord) -> usize {
    let ready = conditions::find(&record.status.conditions, READY);
    let state = READY_STATES.iter().position(|state| ready.is_some_and(|ready| ready.status == *state));
    state.unwrap_or(READY_STATES.len() - 1)
}

fn gauges<L: EncodeLabelSet, N: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, N)>,
) -> fmt::Result {
    let kind = ConstGauge::new(0.0).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    values
        .into_iter()
        .try_for_each(|(labels, value)| ConstGauge::new(value).encode(family.encode_family(&labels)?))
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
