//! Others who write to a WebService in the same moment as the controller: nobody loses, and nobody waits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{TestNamespace, webservice};

const OTHER: &str = "x.io/other";
/// Less than the five seconds after which a pass would have looked again by itself.
const SOON: Duration = Duration::from_secs(4);

#[tokio::test]
async fn another_finalizer_that_goes_in_the_same_moment_as_ours_fails_no_pass() {
    const ROUNDS: usize = 40;
    let ns = TestNamespace::with_operator().await;
    let names: Vec<_> = (0..ROUNDS).map(|round| format!("w-{round}")).collect();
    for name in &names {
        ns.webservices().create(webservice(name).finalizers([OTHER])).await;
        ns.await_ready(name).await;
    }
    ns.controller.settle(&ns).await;
    let mark = ns.mark().await;

    for name in &names {
        ns.webservices().delete(name).await;
        let ours_alone = json!({"metadata": {"finalizers": [FINALIZER]}});
        if ns.webservices().try_merge(name, &ours_alone).await.is_err() {
            // Ours went first, and cannot be put back.
            ns.webservices().merge(name, json!({"metadata": {"finalizers": null}})).await;
        }
    }

    for name in &names {
        ns.webservices().await_gone(name).await;
        assert_eq!(ns.config_maps().find(&format!("{name}-desired")).await, None);
    }
    let writes = ns.writes_since(&mark).await;
    assert!(writes.iter().any(|write| write.ends_with("(422)")), "there was no race: {writes:?}");
    let metrics = ns.controller.metrics().await;
    assert_eq!(metrics.count("controller_runtime_reconcile_errors_total", &[]), 0);
    assert_eq!(ns.controller.process().errors(), Vec::<Value>::new());
}

#[tokio::test]
async fn annotations_that_are_written_right_after_the_creation_do_not_delay_ready() {
    let ns = TestNamespace::new().await;
    // Without the webhook: the controller sets the finalizer while others write.
    let controller = ns.start_controller().await;
    controller.settle(&ns).await;
    for round in 0..10 {
        let name = format!("w-{round}");
        ns.webservices().create(webservice(&name)).await;
        for note in ["a", "b", "c"] {
            ns.webservices().merge(&name, json!({"metadata": {"annotations": {"note": note}}})).await;
        }
        let written = Instant::now();
        ns.await_ready(&name).await;
        assert!(written.elapsed() < SOON, "round {round} took {:?}", written.elapsed());
    }
}
