//! `helm uninstall`: nothing hangs afterwards, whoever is dead already.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use serde_json::json;
use webservice_tests::bed::{OPERATOR, RELEASE, SHOP, Site, webservice};
use webservice_tests::cluster::tools::HELM_4;

/// The Job's own deadline, what Helm and the kubelet need beside it, and much room for a busy machine; less than [`Site::TIMEOUT`].
const BOUND: Duration = Duration::from_mins(4);

async fn create_ready(site: &Site, names: [&str; 3]) {
    for name in names {
        site.webservices().create(webservice(name)).await;
    }
    for name in names {
        site.await_ready(name).await;
    }
}

/// Their namespace goes, and with it whatever is in it.
async fn assert_namespace_goes(site: &Site) {
    let started = Instant::now();
    let namespaces = site.objects::<Namespace>("");
    namespaces.delete(SHOP).await;
    namespaces.await_gone(SHOP).await;
    println!("the namespace was gone after {:.1} s", started.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_it_live_webservices_stay_and_can_be_edited_and_deleted() {
    let site = Site::new().await;
    site.install(&[]).await;
    create_ready(&site, ["one", "two", "three"]).await;
    let started = Instant::now();
    site.helm(&HELM_4, &["uninstall", RELEASE, "--wait", Site::TIMEOUT]).await;
    println!("uninstalled after {:.1} s", started.elapsed().as_secs_f64());

    for name in ["one", "two", "three"] {
        assert!(site.webservices().get(name).await["metadata"].get("finalizers").is_none(), "{name}");
    }
    site.webservices().merge("one", json!({"spec": {"image": "nginx:1.28"}})).await;
    site.objects::<ConfigMap>(SHOP).get("one-desired").await;
    let left: Vec<_> = site.objects::<Secret>(OPERATOR).list().await;
    assert!(left.is_empty(), "{left:?}");
    assert_namespace_goes(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_dead_holds_it_up_no_longer_than_its_lease_lasts() {
    let site = Site::new().await;
    site.install(&[]).await;
    create_ready(&site, ["one", "two", "three"]).await;
    let crash =
        json!([{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--no-such-flag"}]);
    let controller = format!("deployment/{RELEASE}-controller");
    let patch = ["patch", &controller, "--namespace", OPERATOR, "--type=json", "--patch", &crash.to_string()];
    site.kubectl(patch).await.succeeds();
    let pods = "--selector=app.kubernetes.io/component=controller";
    site.kubectl(["delete", "pod", "--namespace", OPERATOR, pods, "--grace-period=0", "--force"])
        .await
        .succeeds();

    let started = Instant::now();
    site.helm(&HELM_4, &["uninstall", RELEASE, "--wait", Site::TIMEOUT]).await;
    println!("uninstalled after {:.1} s", started.elapsed().as_secs_f64());
    assert!(started.elapsed() < BOUND);
    assert_namespace_goes(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_its_step_cannot_run_it_ends_in_time_and_the_documented_way_out_works() {
    let site = Site::new().await;
    site.install(&["--set=uninstall.timeoutSeconds=10"]).await;
    create_ready(&site, ["one", "two", "three"]).await;
    // The image is gone from the registry, and so is the node that had it.
    let chart = webservice_tests::helm::chart().display().to_string();
    let upgrade = ["upgrade", RELEASE, &chart, "--reuse-values", "--set=image.tag=missing"];
    site.helm(&HELM_4, &upgrade).await;

    let started = Instant::now();
    let failed = site.try_helm(&HELM_4, &["uninstall", RELEASE, "--wait", Site::TIMEOUT]).await;
    let complaint = failed.unwrap_err();
    assert!(started.elapsed() < BOUND, "{complaint}");
    println!("gave up after {:.1} s: {}", started.elapsed().as_secs_f64(), complaint.trim());

    let ours = "--selector=app.kubernetes.io/instance=webservice-operator";
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    site.kubectl(["delete", kinds, ours]).await.succeeds();
    site.helm(&HELM_4, &["uninstall", RELEASE, "--no-hooks", "--wait", Site::TIMEOUT]).await;
    site.plugin(["release", "--all-namespaces", "--yes"]).await.succeeds();
    assert_namespace_goes(&site).await;
}
