//! One bad object among many: it is told of by itself, and the others are as fast as without it.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{Controller, TestCluster, TestNamespace, WebServiceBuilder, crds, webservice};

const OBJECTS: usize = 500;
/// Objects that are created at a time.
const AT_A_TIME: usize = 16;
/// Two runs of the same differ by less, on a machine however busy.
const MOST_TIMES: u32 = 3;
const AND_MORE: Duration = Duration::from_secs(15);
const NOTHING_REJECTED: &str = "object.metadata.name != 'rejected-desired'";

async fn create_all(ns: &TestNamespace, objects: impl Iterator<Item = WebServiceBuilder>) {
    let create = async |object: WebServiceBuilder| {
        ns.webservices().create(object.finalizers([FINALIZER])).await;
    };
    stream::iter(objects).for_each_concurrent(AT_A_TIME, create).await;
}

fn good() -> impl Iterator<Item = WebServiceBuilder> {
    (0..OBJECTS).map(|number| webservice(&format!("w-{number}")))
}

/// Starts a controller, and gives the time until all good objects are Ready.
async fn time_to_ready(ns: &TestNamespace) -> (Controller, Duration) {
    let started = Instant::now();
    let controller = ns.controller().poisoned().start().await;
    controller.await_objects_ready(OBJECTS).await;
    (controller, started.elapsed())
}

#[tokio::test]
async fn one_bad_object_of_each_kind_delays_none_of_five_hundred_others() {
    let cluster = TestCluster::private().await;
    cluster.install(crds::anything_goes()).await;
    let [clean, ns] = [cluster.namespace().await, cluster.namespace().await];
    let _policy = ns.forbid_unless(NOTHING_REJECTED).await;
    create_all(&clean, good()).await;
    let bad = [
        webservice("panics"),
        webservice("rejected"),
        webservice("undecodable").edit(|object| object["spec"] = json!({"image": [], "replicas": "two"})),
    ];
    create_all(&ns, bad.into_iter().chain(good())).await;

    let (controller, without) = time_to_ready(&clean).await;
    controller.process().stop().await;
    let (controller, with) = time_to_ready(&ns).await;

    eprintln!("{OBJECTS} objects: {without:?} without and {with:?} with bad ones among them");
    assert!(with < MOST_TIMES * without + AND_MORE, "{with:?} with bad objects, {without:?} without");
    ns.await_reason("rejected", "Forbidden").await;
    ns.await_reason("undecodable", "InvalidSpec").await;
    let metrics = controller.metrics().await;
    assert!(metrics.count("controller_runtime_reconcile_panics_total", &[]) > 0);
    let panics = |line: &Value| line["message"].to_string().contains("poisoned on purpose");
    controller.process().await_line("tells of the panic", panics).await;
}
