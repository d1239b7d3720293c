//! Nobody writes once another has taken the lead: by the API server's own log, whatever happens to the leader.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams};
use tokio::time::interval;
use webservice_api::constants::FIELD_MANAGER;
use webservice_tests::bed::{
    Account, Call, Controller, DEADLINE, LEASE_DURATION, Mark, Partition, TestNamespace, fleet,
};
use webservice_tests::prove::full;

/// WebServices that are edited all the time, so that whoever may write does.
const EDITED: usize = 10;
const EDIT: Duration = Duration::from_millis(50);
/// Writes of a new leader after which an old one has had its chance.
const ENOUGH: usize = 50;
/// How often the foreign leader renews, and how many times.
const RENEWAL: Duration = Duration::from_secs(2);
const RENEWALS: usize = 4;

async fn await_writes(ns: &TestNamespace, mark: &Mark, account: &Account, count: usize) {
    let is_theirs = |call: &Call| call.user == account.user && call.has_written();
    ns.calls_from(mark).await_calls(DEADLINE, &format!("{} writes", account.user), count, is_theirs).await;
}

/// What was written by somebody who no longer led.
async fn out_of_turn(ns: &TestNamespace, mark: &Mark, candidates: &[&Account; 2]) -> Vec<String> {
    let calls = ns.all_calls_since(mark).await;
    for candidate in candidates {
        let wrote = |call: &Call| call.user == candidate.user && call.has_written();
        assert!(calls.all().iter().any(wrote), "the log shows no write of {}", candidate.user);
    }
    calls
        .out_of_turn(&candidates.map(|account| &*account.user))
        .into_iter()
        .map(ToString::to_string)
        .collect()
}

/// The old leader falls silent, and must be out of the way when the new one has begun.
async fn supersede(
    ns: &TestNamespace,
    [old, new]: &[Account; 2],
    silence: impl FnOnce(&Controller),
    speak_again: impl FnOnce(&Controller),
) {
    fleet::at_rest(ns, 0..EDITED).await;
    let leader = ns.start_candidate(old).await;
    let _standby = ns.start_candidate(new).await;
    let mark = ns.mark().await;
    let superseded = async {
        await_writes(ns, &mark, old, ENOUGH).await;
        silence(&leader);
        await_writes(ns, &mark, new, 1).await;
        speak_again(&leader);
        assert!(!leader.process().ended().await.success(), "it says that it was superseded");
        await_writes(ns, &mark, new, ENOUGH).await;
    };
    fleet::edited_meanwhile(ns, EDITED, EDIT, superseded).await;
    assert_eq!(out_of_turn(ns, &mark, &[old, new]).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_leader_that_was_paused_writes_nothing_when_it_wakes() {
    for _ in 0..full(1, 10) {
        let ns = TestNamespace::new().await;
        let accounts = ns.candidate_accounts().await;
        let (pause, resume) =
            (|it: &Controller| it.process().pause(), |it: &Controller| it.process().resume());
        supersede(&ns, &accounts, pause, resume).await;
    }
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_before_another_begins() {
    for _ in 0..full(1, 10) {
        let ns = TestNamespace::new().await;
        let [old, new] = ns.candidate_accounts().await;
        let partition = Partition::before(&ns).await;
        let accounts = [partition.lead(&old, &ns), new];
        supersede(&ns, &accounts, |_| partition.cut(), |_| ()).await;
    }
}

/// Renews a Lease in the name of somebody whose clock is off by so much.
async fn renew(ns: &TestNamespace, offset: SignedDuration) {
    let time = Some(MicroTime(Timestamp::now() + offset));
    let spec = LeaseSpec {
        holder_identity: Some("somebody-else".into()),
        lease_duration_seconds: LEASE_DURATION.as_secs().try_into().ok(),
        acquire_time: time.clone(),
        renew_time: time,
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(FIELD_MANAGER.into()), ..ObjectMeta::default() };
    let lease = Lease { metadata, spec: Some(spec) };
    let params = PatchParams::apply("somebody-else").force();
    let leases = Api::<Lease>::namespaced(ns.client().clone(), ns.name());
    leases.patch(FIELD_MANAGER, &params, &Patch::Apply(&lease)).await.unwrap();
}

/// A leader of that clock is believed in exactly as long as it renews, and its Lease lasts.
async fn believe_in_a_leader_whose_clock_is_off_by(offset: SignedDuration) {
    let ns = TestNamespace::new().await;
    let [ours, _] = ns.candidate_accounts().await;
    renew(&ns, offset).await;
    let candidate = ns.start_candidate(&ours).await;
    let leads = |line: &serde_json::Value| line["message"] == "leading";
    let mut renewals = interval(RENEWAL);
    let mut renewed = Instant::now();
    for _ in 0..RENEWALS {
        renewals.tick().await;
        renewed = Instant::now();
        renew(&ns, offset).await;
        assert!(!candidate.process().log().iter().any(leads), "it leads beside somebody");
    }
    candidate.process().await_line("leads", leads).await;
    let waited = renewed.elapsed();
    assert!(waited >= LEASE_DURATION, "it waited for {waited:?}");
}

#[tokio::test]
async fn a_leader_whose_clock_is_an_hour_ahead_is_believed_in_as_long_as_it_renews() {
    believe_in_a_leader_whose_clock_is_off_by(SignedDuration::from_hours(1)).await;
}

#[tokio::test]
async fn a_leader_whose_clock_is_an_hour_behind_is_believed_in_as_long_as_it_renews() {
    believe_in_a_leader_whose_clock_is_off_by(SignedDuration::from_hours(-1)).await;
}
