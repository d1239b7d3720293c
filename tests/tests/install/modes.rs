//! From one TLS mode to another, by `helm upgrade`, while WebServices are created.

use webservice_tests::bed::Site;
use webservice_tests::prove::{Findings, full};

use crate::certificates::{Mode, OwnPki};
use crate::load::{Creations, strict};

/// Seconds from the moment at which the webhook serves the user's certificate to the one at which API servers have taken up its
/// CA. A controller is started in between, which a busy machine may do slowly.
fn refusals() -> f64 {
    full(30.0, 5.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_creation_fails_while_the_tls_mode_changes_but_for_seconds_on_the_way_to_a_secret() {
    let site = Site::new().await;
    site.install(&[&strict()]).await;
    let own = Mode::Secret(Box::new(OwnPki::new()));
    let to_cert_manager = Mode::CertManager.prepare(&site).await;
    let to_secret = own.prepare(&site).await;
    let to_self_managed = vec!["--set=tls.mode=self-managed"];

    let mut findings = Findings::of("changes of the TLS mode");
    // From each of the modes to each of the others.
    for (to, values, mode) in [
        ("cert-manager", &to_cert_manager, &Mode::CertManager),
        ("secret", &to_secret, &own),
        ("cert-manager again", &to_cert_manager, &Mode::CertManager),
        ("self-managed", &to_self_managed, &Mode::SelfManaged),
        ("secret again", &to_secret, &own),
        ("self-managed at last", &to_self_managed, &Mode::SelfManaged),
    ] {
        let values = [&["--set=tls.secret.name="], &values[..]].concat();
        let creations = Creations::start(&site);
        site.upgrade(&values).await;
        site.await_presented(&mode.secret()).await;
        println!("to {to}: {} creations failed", creations.failures());
        match mode {
            Mode::Secret(_) => creations.finish_after_refusals(&mut findings, refusals()).await,
            Mode::SelfManaged | Mode::CertManager => creations.finish(&mut findings).await,
        }
    }
    site.assert_works("afterwards").await;
    findings.conclude();
}
