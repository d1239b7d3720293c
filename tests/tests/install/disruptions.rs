//! The webhook's pods come and go while WebServices are created.

use webservice_tests::bed::{OPERATOR, RELEASE, Site};
use webservice_tests::prove::{Findings, full};

use crate::load::{Creations, strict};

#[tokio::test(flavor = "multi_thread")]
async fn no_creation_fails_while_the_webhook_is_restarted_pod_by_pod() {
    let site = Site::new().await;
    site.install(&[&strict()]).await;
    let creations = Creations::start(&site);
    let restarts = full(2, 20);
    let webhook = format!("deployment/{RELEASE}-webhook");
    for restart in 1..=restarts {
        site.kubectl(["rollout", "restart", &webhook, "--namespace", OPERATOR]).await.succeeds();
        let status = ["rollout", "status", &webhook, "--namespace", OPERATOR, Site::TIMEOUT];
        site.kubectl(status).await.succeeds();
        println!("{restart} of {restarts} restarts, {} creations failed", creations.failures());
    }
    let mut findings = Findings::of("rolling restarts of the webhook");
    creations.finish(&mut findings).await;
    findings.conclude();
}
