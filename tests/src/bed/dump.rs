//! What explains a failure: the objects, events and logs of a namespace.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde_json::Value;
use webservice_api::WebService;

use super::objects::{Objects, name, without_managed_fields};
use super::test_cluster::{TestCluster, client};

/// Lines of each log that are shown.
const TAIL: usize = 40;
/// Objects of each kind that are shown.
const MOST: usize = 50;

pub(super) async fn dump(namespace: &str, cluster: &TestCluster, directory: &Path) -> String {
    let client = client(cluster).await;
    let mut text = format!("=== namespace {namespace}\n");
    text += &section::<WebService>(&client, namespace, "WebServices", |object| {
        format!("{:#}", without_managed_fields(object.clone()))
    })
    .await;
    text += &section::<ConfigMap>(&client, namespace, "ConfigMaps", |object| {
        let (metadata, data) = (&object["metadata"], &object["data"]);
        format!(
            "{} version {} labels {} data {data} owners {} finalizers {}",
            name(object),
            metadata["resourceVersion"],
            metadata["labels"],
            metadata["ownerReferences"],
            metadata["finalizers"],
        )
    })
    .await;
    text += &section::<Event>(&client, namespace, "Events", |object| {
        let regarding = &object["regarding"];
        format!("{} {}/{}: {}", object["reason"], regarding["kind"], regarding["name"], object["note"])
    })
    .await;
    text + &logs(directory)
}

async fn section<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    title: &str,
    show: impl Fn(&Value) -> String,
) -> String {
    let objects = Objects::new(client.clone(), ApiResource::erase::<K>(&()), namespace);
    let mut text = format!("--- {title}\n");
    match objects.try_list().await {
        Err(refusal) => _ = writeln!(text, "failed to list: {refusal}"),
        Ok(list) => {
            let ours = list.iter().filter(|object| name(object) != "kube-root-ca.crt");
            ours.take(MOST).for_each(|object| _ = writeln!(text, "{}", show(object)));
            _ = writeln!(text, "({} in all)", list.len());
        }
    }
    text
}

fn logs(directory: &Path) -> String {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_log =
        |path: &Path| path.extension().is_some_and(|extension| extension == "log" || extension == "err");
    let mut paths: Vec<_> = entries.filter(|path| is_log(path)).collect();
    paths.sort();
    let mut text = String::new();
    for path in paths {
        let log = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        if !lines.is_empty() {
            let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
            _ = writeln!(text, "--- {}\n{tail}", path.file_name().unwrap_or_default().display());
        }
    }
    text
}
