//! The node tier: pods from images that are built here, and nothing left when it is over. Needs root.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{LogParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::{Options, TemporaryCluster, Tier};
use webservice_tests::image::Image;

const IMAGE: &str = "localhost/hello:test";
const DEADLINE: Duration = Duration::from_mins(5);
/// What the kubelet would set for the whole machine.
const SETTINGS: [&str; 4] =
    ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"];

/// A static program, as the images of the operator have.
static HELLO: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/hello.rs");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hello");
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition=2024", "-Ctarget-feature=+crt-static", "-Cstrip=symbols", source, "-o"])
        .arg(&program);
    assert!(rustc.status().unwrap().success());
    program
});

/// A cluster whose node has the image.
async fn node() -> (TemporaryCluster, Client) {
    let cluster = TemporaryCluster::up(Tier::Node, &Options::default(), &Silent).await.unwrap();
    cluster.load_image(&Image::of_programs(IMAGE, &[&HELLO]).unwrap()).await.unwrap();
    let client = cluster.client().await.unwrap();
    (cluster, client)
}

/// Under the restrictions that the operator's own pods have.
fn pod(name: &str, arguments: &[&str]) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "OnFailure",
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "hello",
                "image": IMAGE,
                "args": arguments,
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": true,
                },
            }],
        },
    });
    serde_json::from_value(pod).unwrap()
}

fn service(name: &str) -> Service {
    let ports = json!([{"port": 80, "targetPort": 8080}]);
    let service = json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports}});
    serde_json::from_value(service).unwrap()
}

fn has_phase(phase: &'static str) -> impl Condition<Pod> {
    move |pod: Option<&Pod>| pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some(phase)
}

fn is_ready() -> impl Condition<Pod> {
    |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    }
}

/// Creates a pod and waits for it; shows its status where it does not come to that.
async fn run(client: &Client, pod: Pod, condition: impl Condition<Pod>) {
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let name = pods.create(&PostParams::default(), &pod).await.unwrap().metadata.name.unwrap();
    let waited = timeout(DEADLINE, Box::pin(await_condition(pods.clone(), &name, condition))).await;
    let status = pods.get(&name).await.unwrap().status;
    assert!(waited.is_ok(), "{name} has this status after {DEADLINE:?}: {status:#?}");
}

async fn log(client: &Client, pod: &str) -> String {
    Api::<Pod>::default_namespaced(client.clone()).logs(pod, &LogParams::default()).await.unwrap()
}

#[tokio::test]
async fn a_pod_is_reached_through_its_service_by_another_pod() {
    let (_cluster, client) = node().await;
    let mut server = pod("server", &[]);
    let probe: Value = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    server.spec.as_mut().unwrap().containers[0].readiness_probe = serde_json::from_value(probe).unwrap();
    run(&client, server, is_ready()).await;
    let services = Api::<Service>::default_namespaced(client.clone());
    let service = services.create(&PostParams::default(), &service("server")).await.unwrap();

    let address = format!("{}:80", service.spec.unwrap().cluster_ip.unwrap());
    run(&client, pod("client", &[&address]), has_phase("Succeeded")).await;

    let answer = log(&client, "client").await;
    assert!(answer.ends_with("hello\n"), "{answer}");
}

#[tokio::test]
async fn clusters_live_side_by_side_and_each_leaves_nothing() {
    let settings = SETTINGS.map(setting);
    let ((first, first_client), (second, second_client)) = tokio::join!(node(), node());
    run(&first_client, pod("server", &[]), has_phase("Running")).await;
    run(&second_client, pod("server", &[]), has_phase("Running")).await;
    let (name, directory) = (first.name().to_string(), first.directory().to_owned());
    assert!(!processes(&name).is_empty() && !cgroups(&name).is_empty());
    assert_eq!(log(&first_client, "server").await, "serving\n");

    tokio::task::spawn_blocking(|| drop(first)).await.unwrap();

    assert_eq!(processes_after_reaping(&name).await, Vec::<PathBuf>::new());
    assert_eq!(cgroups(&name), Vec::<PathBuf>::new());
    assert!(!directory.exists());
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(directory.to_str().unwrap()));
    assert_eq!(SETTINGS.map(setting), settings);
    assert_eq!(log(&second_client, "server").await, "serving\n");
    drop(second);
}

fn setting(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap()
}

fn entries(directory: impl AsRef<Path>) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()).collect()
}

/// Processes that are members of a group of the cluster, so also those of its pods.
fn processes(cluster: &str) -> Vec<PathBuf> {
    let group = format!("/webservice-{cluster}-");
    let is_member = |process: &PathBuf| {
        fs::read_to_string(process.join("cgroup")).is_ok_and(|groups| groups.contains(&group))
    };
    entries("/proc").into_iter().filter(is_member).collect()
}

/// A process that has ended is listed until its parent asks for it. For those of pods that is the machine's init.
async fn processes_after_reaping(cluster: &str) -> Vec<PathBuf> {
    let all_gone = async {
        while !processes(cluster).is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    _ = timeout(DEADLINE, all_gone).await;
    processes(cluster)
}

/// Groups of the cluster, in any hierarchy.
fn cgroups(cluster: &str) -> Vec<PathBuf> {
    let hierarchies = entries("/sys/fs/cgroup").into_iter().filter(|path| path.is_dir());
    let below = hierarchies.flat_map(entries).chain(entries("/sys/fs/cgroup"));
    below.filter(|path| path.to_string_lossy().contains(&format!("/webservice-{cluster}-"))).collect()
}
