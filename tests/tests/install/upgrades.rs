//! `helm upgrade`, with no change, with one that cannot come up, and to the next version.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;
use webservice_tests::bed::{OPERATOR, RELEASE, Site, eventually, name, uid, version, webservice};
use webservice_tests::cluster::tools::HELM_4;
use webservice_tests::helm::chart;
use webservice_tests::operator_image;
use webservice_tests::prove::Findings;

use crate::load::{Creations, strict};

/// The uid of every pod of the release, and how often its container was started again.
async fn pods(site: &Site) -> BTreeMap<String, Value> {
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].clone();
    let pods = site.objects::<Pod>(OPERATOR).list().await;
    pods.iter().map(|pod| (uid(pod).to_owned(), restarts(pod))).collect()
}

/// Everything that the release consists of and whatever it made, by kind and name, with its resourceVersion. Without what
/// tells how things go (pods, endpoints, events, the Lease) and Helm's own record.
async fn versions(site: &Site) -> BTreeMap<String, String> {
    let kinds =
        "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings,poddisruptionbudgets";
    let in_cluster = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,\
                      customresourcedefinitions";
    let own = site.kubectl(["get", kinds, "--namespace", OPERATOR, "--output=json"]).await.succeeds().json();
    let ours = "app.kubernetes.io/part-of=webservice-operator";
    let shared =
        site.kubectl(["get", in_cluster, "--selector", ours, "--output=json"]).await.succeeds().json();
    let all = [own, shared].map(|list| list["items"].as_array().unwrap().clone()).concat();
    let is_helms = |object: &&Value| name(object).starts_with("sh.helm.release");
    all.iter()
        .filter(|object| !is_helms(object))
        .map(|object| (format!("{} {}", object["kind"], name(object)), version(object).to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_with_no_change_moves_nothing() {
    let site = Site::new().await;
    site.install(&[]).await;
    site.assert_works("checkout").await;
    let before = (pods(&site).await, versions(&site).await);
    site.upgrade(&[]).await;
    assert_eq!((pods(&site).await, versions(&site).await), before);
    assert_eq!(before.0.len(), 3, "one controller and two webhooks: {:?}", before.0);
    assert!(before.1.len() > 10, "{:?}", before.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_to_an_image_that_is_missing_holds_up_no_write_and_is_rolled_back() {
    let site = Site::new().await;
    site.install(&[&strict()]).await;
    let before = pods(&site).await;
    let creations = Creations::start(&site);

    let chart = chart().display().to_string();
    let upgrade = ["upgrade", RELEASE, &chart, "--reuse-values", "--set=image.tag=missing", "--wait"];
    let failed = site.try_helm(&HELM_4, &[&upgrade[..], &["--timeout=10s"]].concat()).await;
    assert!(failed.is_err(), "{failed:?}");
    site.assert_works("checkout").await;

    site.helm(&HELM_4, &["rollback", RELEASE, "--wait", Site::TIMEOUT]).await;
    eventually("the pods are those of the first revision", async || {
        let now = pods(&site).await;
        if now == before { Ok(()) } else { Err(format!("{now:?}, and before {before:?}")) }
    })
    .await;
    let mut findings = Findings::of("an upgrade that cannot come up");
    creations.finish(&mut findings).await;
    findings.conclude();
}

/// How many WebServices live through the upgrade.
const LIVE: usize = 100;

/// Until a version has been released, the next one stands for the chart's own successor: another version, another image, all pods new.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_to_the_next_version_loses_nothing_and_writes_nothing_more() {
    let site = Site::new().await;
    site.install(&[&strict()]).await;
    let names: Vec<_> = (0..LIVE).map(|number| format!("live-{number}")).collect();
    for name in &names {
        site.webservices().create(webservice(name)).await;
    }
    for name in &names {
        site.await_ready(name).await;
    }
    let before = live(&site).await;
    let pods_before = pods(&site).await;

    let next = "localhost/webservice-operator:next";
    site.tag_image(next).await;
    let directory = tempfile::tempdir().unwrap();
    copy(&chart(), directory.path()).unwrap();
    let manifest = directory.path().join("Chart.yaml");
    let text = fs::read_to_string(&manifest).unwrap().replace("version: 0.1.0", "version: 0.2.0");
    fs::write(&manifest, text).unwrap();
    let values = ["--reset-then-reuse-values", "--set=controller.podAnnotations.version=next"];
    let creations = Creations::start(&site);
    let image = operator_image::values(next);
    let upgrade = [&values[..], &["--set=webhook.podAnnotations.version=next", &image]].concat();
    site.deploy_chart(directory.path(), &HELM_4, "upgrade", &upgrade).await;
    let mut findings = Findings::of("an upgrade to the next version");
    creations.finish(&mut findings).await;

    site.assert_works("after").await;
    assert_eq!(live(&site).await, before, "nothing is lost, and nothing written again");
    eventually("all pods are new", async || {
        let now = pods(&site).await;
        if now.keys().any(|pod| pods_before.contains_key(pod)) { Err(format!("{now:?}")) } else { Ok(()) }
    })
    .await;
    findings.conclude();
}

/// The resourceVersion of each live WebService and of its child.
async fn live(site: &Site) -> BTreeMap<String, String> {
    let namespace = webservice_tests::bed::SHOP;
    let objects =
        [site.webservices().list().await, site.objects::<ConfigMap>(namespace).list().await].concat();
    let is_live = |object: &&Value| name(object).starts_with("live-");
    let both = |object: &Value| (name(object).to_owned(), version(object).to_owned());
    let versions: BTreeMap<_, _> = objects.iter().filter(is_live).map(both).collect();
    assert_eq!(versions.len(), 2 * LIVE);
    versions
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
