//! C11: from exec to ready, beside a program that lists the same objects.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use webservice_api::constants::CHILD_SELECTOR;
use webservice_controller::client;
use webservice_controller::engine::Fence;
use webservice_controller::engine::lease::BootClock;
use webservice_controller::records::{RawChild, RawWebService};

use super::super::rounds::Rounds;
use super::super::samples::Samples;
use super::super::server::{free_address, time_to_ready};
use super::super::table::Row;
use super::super::thresholds;
use crate::bed::{TestCluster, TestNamespace, binary, fleet};

/// As large as the controller's.
const PAGE: u32 = 500;

#[derive(Clone, Copy)]
enum Arm {
    Controller,
    RawList,
}

/// With nothing to list, and with so many pairs.
pub(super) async fn to_ready(pairs: usize, starts: usize) -> Result<Vec<Row>> {
    let cluster = TestCluster::private_with_crd().await;
    let ns = cluster.namespace().await;
    let kubeconfig = &ns.account().await.kubeconfig;
    let mut empty = Vec::new();
    for _ in 0..starts {
        empty.push(milliseconds(start(&ns, kubeconfig).await?));
    }
    fleet::at_rest(&ns, 0..pairs).await;
    let full = Rounds::new(starts + 1).run([Arm::Controller, Arm::RawList], async |arm| {
        Ok(milliseconds(match arm {
            Arm::Controller => start(&ns, kubeconfig).await?,
            Arm::RawList => list_both(&ns, kubeconfig).await?,
        }))
    });
    let empty: Samples = empty.into_iter().collect();
    Ok(vec![Row::absolute(thresholds::C11_EMPTY, empty), Row::beside(thresholds::C11_FULL, full.await?)])
}

async fn start(ns: &TestNamespace, kubeconfig: &Path) -> Result<Duration> {
    let probes = free_address()?;
    let mut command = Command::new(binary("webservice-controller"));
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--namespaces={}", ns.name()))
        .arg(format!("--probe-address={probes}"))
        .args(["--metrics-address=127.0.0.1:0", "--log-format=json"])
        .stdout(Stdio::null());
    time_to_ready(&mut command, probes).await
}

/// Both kinds, one beside the other, by a client that knows nobody yet.
async fn list_both(ns: &TestNamespace, kubeconfig: &Path) -> Result<Duration> {
    let began = Instant::now();
    let config = client::config(Some(kubeconfig.to_owned())).await?;
    let client = client::calling(&config, |_: &_, _| (), Fence::always_open(Arc::new(BootClock)))?;
    tokio::try_join!(
        list::<RawWebService>(&client, ns.name(), ListParams::default()),
        list::<RawChild>(&client, ns.name(), ListParams::default().labels(CHILD_SELECTOR)),
    )?;
    Ok(began.elapsed())
}

async fn list<K>(client: &Client, namespace: &str, which: ListParams) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let mut which = which.limit(PAGE);
    loop {
        let page = api.list(&which).await?;
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => which = which.continue_token(&next),
            None => return Ok(()),
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
