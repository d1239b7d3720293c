//! Leaf and CA are replaced in each TLS mode, and nobody who creates WebServices notices.

use webservice_tests::bed::Site;
use webservice_tests::prove::{Findings, full, is_full};

use crate::certificates::{Mode, OwnPki};
use crate::load::{Creations, strict};

async fn rotate(site: Site, mut mode: Mode, rounds: usize, findings: &mut Findings) {
    let values = mode.prepare(&site).await;
    site.install(&[&[strict().as_str()], &values[..]].concat()).await;
    let creations = Creations::start(&site);
    for round in 1..=rounds {
        mode.rotate_leaf(&site).await;
        mode.rotate_ca(&site).await;
        println!("{round} of {rounds} rotations, {} creations failed", creations.failures());
    }
    creations.finish(findings).await;
    site.assert_works("afterwards").await;
}

/// In full with the kubelet's own habits, too.
async fn prove(what: &'static str, mode: impl Fn() -> Mode) {
    let mut findings = Findings::of(what);
    rotate(Site::new().await, mode(), full(1, 3), &mut findings).await;
    if is_full() {
        rotate(Site::with_a_slow_kubelet().await, mode(), 1, &mut findings).await;
    }
    findings.conclude();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_creation_fails_while_the_controller_replaces_its_certificates() {
    prove("rotations in self-managed mode", || Mode::SelfManaged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_creation_fails_while_cert_manager_replaces_its_certificates() {
    prove("rotations in cert-manager mode", || Mode::CertManager).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_creation_fails_while_people_replace_their_certificates() {
    prove("rotations in secret mode", || Mode::Secret(Box::new(OwnPki::new()))).await;
}
