//! An API server that goes away and comes back, and credentials that change under way.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{
    DEADLINE, OperatedNamespace, PAGE, TestCluster, TestNamespace, crds, eventually, fleet, webservice,
    within,
};
use webservice_tests::prove::{full, is_full};

const OBJECTS: usize = 20;

async fn with_objects() -> OperatedNamespace {
    let cluster = TestCluster::private().await;
    cluster.install(crds::shipped()).await;
    let ns = OperatedNamespace::start(cluster.namespace().await).await;
    for number in 0..OBJECTS {
        ns.webservices().create(webservice(&format!("w-{number}"))).await;
    }
    ns.controller.settle(&ns).await;
    ns
}

#[tokio::test]
async fn a_restart_of_the_api_server_costs_no_write_and_at_most_one_list_of_each_resource() {
    let others = full(50, 10_000);
    let pages = (OBJECTS + others).div_ceil(PAGE);
    let ns = with_objects().await;
    fleet::backlog(&ns, 0..others).await;
    fleet::await_ready(&ns, 0..others).await;
    ns.controller.settle(&ns).await;
    for restart in 1..=full(2, 5) {
        let mark = ns.mark().await;
        ns.cluster().restart_api_server().await.unwrap();
        ns.webservices().merge("w-0", json!({"spec": {"replicas": restart + 1}})).await;
        ns.await_ready("w-0").await;
        ns.controller.await_readyz().await;

        let calls = ns.calls_since(&mark).await;
        let lists = |resource: &str| {
            calls.all().iter().filter(|call| (&*call.verb, &*call.resource) == ("list", resource)).count()
        };
        assert!(lists("webservices") <= pages && lists("configmaps") <= pages, "{:?}", calls.reads());
        // One of the watches may be back long after the other; what is tried meanwhile is refused, and so writes nothing.
        let writes: Vec<_> = calls.writes().into_iter().filter(|write| !write.ends_with("(409)")).collect();
        assert_eq!(writes, ["patch configmaps w-0-desired", "patch webservices/status w-0"]);
    }
}

#[tokio::test]
async fn what_is_deleted_and_changed_around_an_outage_is_made_up_for_after_it() {
    let ns = with_objects().await;
    ns.controller.process().pause();
    ns.webservices().merge("w-1", json!({"spec": {"replicas": 7}})).await;
    ns.webservices().delete("w-2").await;
    ns.config_maps().delete("w-3-desired").await;
    ns.cluster().restart_api_server().await.unwrap();
    ns.controller.process().resume();

    let is_current = |child: &serde_json::Value| child["data"]["replicas"] == "7";
    ns.config_maps().await_that("w-1-desired", "is current", is_current).await;
    ns.webservices().await_gone("w-2").await;
    ns.config_maps().await_that("w-3-desired", "is there again", |_| true).await;
}

#[tokio::test]
async fn an_outage_is_told_by_readyz_and_over_within_the_longest_pause() {
    const LONGEST_PAUSE: Duration = Duration::from_secs(30);
    let ns = with_objects().await;
    ns.cluster().stop_api_server().await.unwrap();
    eventually("it says that the API server is away", async || {
        match ns.controller.probe("/readyz?verbose").await {
            (503, text) if text.contains("failed to watch") || text.contains("failed to list") => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        }
    })
    .await;

    ns.cluster().start_api_server().await.unwrap();
    ns.webservices().create(webservice("after").finalizers([FINALIZER])).await;
    within(LONGEST_PAUSE + DEADLINE, "a new object is Ready", async || {
        let child = ns.config_maps().find("after-desired").await;
        child.map(drop).ok_or("no child yet")
    })
    .await;
    ns.await_ready("after").await;
}

/// A kubeconfig of the namespace's account that names a file for its token.
async fn kubeconfig_with_token_file(ns: &TestNamespace, token: &str) -> (PathBuf, PathBuf) {
    let [kubeconfig, file] = ["rotated.kubeconfig", "token"].map(|name| ns.directory().join(name));
    fs::write(&file, token).unwrap();
    let inline = fs::read_to_string(&ns.account().await.kubeconfig).unwrap();
    let (before, after) = inline.split_once("{token: ").unwrap();
    let (_, after) = after.split_once('}').unwrap();
    fs::write(&kubeconfig, format!("{before}{{tokenFile: {:?}}}{after}", file.to_str().unwrap())).unwrap();
    (kubeconfig, file)
}

/// A token file is read again within a minute, which is what the kubelet counts on. So this takes longer than that, and is
/// done in the long form only; in the short one the controller is seen to live on a token file at all.
#[tokio::test]
async fn a_token_that_is_rotated_is_read_again_before_the_old_one_ends() {
    let ns = TestNamespace::new().await;
    let (old, new) = (ns.token("old").await, ns.token("new").await);
    let (kubeconfig, file) = kubeconfig_with_token_file(&ns, &old).await;
    let _controller = ns.controller().kubeconfig(kubeconfig).start().await;
    ns.webservices().create(webservice("before")).await;
    ns.await_ready("before").await;
    if !is_full() {
        return;
    }

    fs::write(&file, &new).unwrap();
    tokio::time::sleep(DEADLINE).await;
    ns.revoke_token("old").await;
    ns.webservices().create(webservice("after")).await;
    ns.await_ready("after").await;
}
