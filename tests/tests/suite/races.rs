//! Others who write to a WebService in the same moment as the controller: nobody loses, and nobody waits.

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{TestNamespace, webservice};

const OTHER: &str = "x.io/other";

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
    assert_eq!(ns.controller.failed_passes().await, 0);
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
        ns.await_ready(&name).await;
    }
    let given_up = controller.metrics().await.count("webservice_own_writes_expired_total", &[]);
    assert_eq!(given_up, 0, "a pass has waited for a write that nobody could show it any more");
}
