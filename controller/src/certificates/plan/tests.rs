//! Each rule of the plan by itself.

use k8s_openapi::jiff::SignedDuration;

use super::*;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const OVERLAP: Duration = Duration::from_mins(1);
const HOST: &str = "webhook.shop.svc";

fn terms() -> Terms {
    Terms {
        service: "webhook".to_owned(),
        namespace: "shop".to_owned(),
        ca_lifetime: SignedDuration::from_hours(24),
        leaf_lifetime: SignedDuration::from_hours(6),
        overlap: OVERLAP,
    }
}

fn hours(hours: i64) -> Timestamp {
    NOW + SignedDuration::from_hours(hours)
}

fn ca() -> Ca {
    Ca::create(Validity::lasting(terms().ca_lifetime, NOW)).unwrap()
}

fn leaf(ca: &Ca, host: &str, now: Timestamp) -> Stored {
    let leaf = ca.issue(&[host], Validity::lasting(terms().leaf_lifetime, now)).unwrap();
    Stored { chain: leaf.certificate_pem().into(), validity: leaf.validity() }
}

fn pem(cas: &[&Ca]) -> Vec<u8> {
    cas.iter().flat_map(|ca| ca.certificate_pem().bytes()).collect()
}

/// A CA, a leaf of it, and two registrations that trust it: nothing is to be done.
fn settled() -> State {
    let ca = ca();
    let own = pem(&[&ca]);
    State {
        leaf: Ok(leaf(&ca, HOST, NOW)),
        known: Bundle::readable(&own),
        remembered: own.clone(),
        registrations: vec![vec![own.clone()], vec![own]],
        trusted_for: Duration::ZERO,
        is_ca_asked: false,
        is_leaf_asked: false,
        ca: Ok(ca),
    }
}

/// A new CA stands beside the old one, everywhere but in the leaf.
fn following(old: &Ca, new: Ca) -> State {
    let both = pem(&[&new, old]);
    State {
        leaf: Ok(leaf(old, HOST, NOW)),
        known: Bundle::readable(&both),
        remembered: both.clone(),
        registrations: vec![vec![both.clone()], vec![both]],
        ca: Ok(new),
        ..settled()
    }
}

fn decided(state: &State) -> Step {
    plan(state, &terms(), NOW)
}

fn is_ca(step: &Step) -> bool {
    matches!(step, Step::MakeCa { .. })
}

fn is_leaf(step: &Step) -> bool {
    matches!(step, Step::IssueLeaf { .. })
}

const REST: Step = Step::Rest { until_due: None };

#[test]
fn where_all_is_well_nothing_is_done() {
    assert_eq!(decided(&settled()), REST);
}

#[test]
fn from_nothing_the_ca_comes_first_then_the_leaf_then_trust() {
    let nothing = State {
        ca: Err("there is none yet".into()),
        leaf: Err("there is none yet".into()),
        known: Bundle::default(),
        remembered: Vec::new(),
        registrations: vec![vec![Vec::new()], vec![Vec::new()]],
        ..settled()
    };
    assert!(is_ca(&decided(&nothing)));
    let State { ca, known, remembered, leaf, .. } = settled();
    let with_ca = State { ca, known: known.clone(), remembered, ..nothing };
    assert!(is_leaf(&decided(&with_ca)));
    let with_leaf = State { leaf, ..with_ca };
    assert_eq!(decided(&with_leaf), Step::Publish { registration: 0, bundle: known });
}

#[test]
fn what_is_due_is_renewed() {
    assert!(is_leaf(&plan(&settled(), &terms(), hours(5))));
    assert!(is_leaf(&plan(&settled(), &terms(), hours(7))), "expired");
    let fresh_leaf = || {
        let state = settled();
        State { leaf: Ok(leaf(state.ca.as_ref().unwrap(), HOST, hours(17))), ..state }
    };
    assert!(is_ca(&plan(&fresh_leaf(), &terms(), hours(17))));
    assert!(is_ca(&plan(&fresh_leaf(), &terms(), hours(25))), "expired");
}

#[test]
fn what_a_person_asks_for_is_renewed() {
    assert!(is_leaf(&decided(&State { is_leaf_asked: true, ..settled() })));
    assert!(is_ca(&decided(&State { is_ca_asked: true, ..settled() })));
}

#[test]
fn a_leaf_of_a_new_ca_waits_until_api_servers_trust_it() {
    let state = following(&ca(), ca());
    assert_eq!(decided(&state), Step::Rest { until_due: Some(OVERLAP) });
    let waiting = State { trusted_for: OVERLAP / 4, ..state };
    assert_eq!(decided(&waiting), Step::Rest { until_due: Some(OVERLAP * 3 / 4) });
    assert!(is_leaf(&decided(&State { trusted_for: OVERLAP, ..waiting })));
}

#[test]
fn a_new_ca_is_published_before_a_leaf_of_it_is_served() {
    let (old, new) = (ca(), ca());
    let both = Bundle::readable(&pem(&[&new, &old]));
    let state = State { trusted_for: OVERLAP, ..following(&old, new) };
    let published = vec![state.registrations[0].clone(), vec![pem(&[&old])]];
    let step = decided(&State { registrations: published, ..state });
    assert_eq!(step, Step::Publish { registration: 1, bundle: both });
}

#[test]
fn a_leaf_that_is_missing_while_another_ca_is_trusted_waits_too_since_pods_may_serve_an_old_one() {
    let state = State { leaf: Err("there is none yet".into()), ..following(&ca(), ca()) };
    assert_eq!(decided(&state), Step::Rest { until_due: Some(OVERLAP) });
}

#[test]
fn the_next_ca_is_not_made_before_a_leaf_of_the_present_one_is_there() {
    let state = State { is_ca_asked: true, ..following(&ca(), ca()) };
    assert_eq!(decided(&state), Step::Rest { until_due: Some(OVERLAP) });
}

#[test]
fn a_broken_or_expired_leaf_is_replaced_at_once_under_the_only_ca() {
    assert!(is_leaf(&decided(&State { leaf: Err("failed to read tls.crt".into()), ..settled() })));
}

#[test]
fn a_broken_ca_is_replaced_and_stays_trusted() {
    let old = ca();
    let broken = State { ca: Err("failed to read the CA's key".into()), ..following(&old, ca()) };
    assert!(is_ca(&decided(&broken)));
}

#[test]
fn a_leaf_with_another_name_is_replaced() {
    let state = settled();
    let other = leaf(state.ca.as_ref().unwrap(), "webhook.before.svc", NOW);
    assert!(is_leaf(&decided(&State { leaf: Ok(other), ..state })));
}

#[test]
fn whom_somebody_else_trusts_stays_trusted_and_what_is_broken_is_healed() {
    let (foreign, state) = (ca(), settled());
    let own = state.ca.as_ref().unwrap();
    let edited = [b"hello\n".to_vec(), pem(&[&foreign])].concat();
    let wanted = Bundle::readable(&pem(&[own, &foreign]));
    let registrations = vec![vec![edited], vec![pem(&[own])]];
    let step = decided(&State { registrations, ..state });
    assert_eq!(step, Step::Publish { registration: 0, bundle: wanted });
}

#[test]
fn an_expired_ca_leaves_everywhere() {
    let old = Ca::create(Validity::lasting(SignedDuration::from_hours(1), NOW)).unwrap();
    let state = settled();
    let (alone, both) = (state.known.clone(), pem(&[state.ca.as_ref().unwrap(), &old]));
    let registrations = vec![vec![both.clone()], vec![both.clone()]];
    let with_old = State { known: Bundle::readable(&both), remembered: both, registrations, ..state };
    assert_eq!(decided(&with_old), REST);
    assert_eq!(plan(&with_old, &terms(), hours(2)), Step::Remember(alone.clone()));
    let forgotten = State { remembered: alone.to_pem().into(), known: alone.clone(), ..with_old };
    assert_eq!(plan(&forgotten, &terms(), hours(2)), Step::Publish { registration: 0, bundle: alone });
}
