//! WebServices by the thousand, for what shows only in numbers.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::core::{Request, Resource};
use kube::{Client, api::PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::interval;
use webservice_api::constants::FINALIZER;
use webservice_controller::client;
use webservice_controller::decide::decide;
use webservice_controller::dependencies::Gate;
use webservice_controller::engine::lease::BootClock;
use webservice_controller::engine::{Cached, Fence, ObjectKey};
use webservice_controller::failure::Failure;
use webservice_controller::observe::{Child, Observation};
use webservice_controller::records::{RawWebService, WebServiceRecord};
use webservice_controller::report::{report, status};
use webservice_controller::writes::{Creation, Writes, cached};

use super::builders::webservice;
use super::eventually::within;
use super::must::Must;
use super::namespace::TestNamespace;
use super::objects::{Objects, is_ready, name};

/// What some thousands of passes may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// Requests at a time; more make the API server no faster.
const HANDS: usize = 24;

/// The name of the WebService with this number.
#[must_use]
pub fn nth(number: usize) -> String {
    format!("w-{number:05}")
}

/// The names of the WebServices with these numbers.
pub fn names(numbers: Range<usize>) -> impl Iterator<Item = String> {
    numbers.map(nth)
}

/// Merges the same patch into all of these objects.
pub async fn merge(objects: Objects, names: impl Iterator<Item = String>, patch: Value) {
    let merge = async |name: String| drop(objects.merge(&name, patch.clone()).await);
    stream::iter(names).map(merge).buffer_unordered(HANDS).collect::<()>().await;
}

/// Deletes all of these objects.
pub async fn delete(objects: Objects, names: impl Iterator<Item = String>) {
    let delete = async |name: String| objects.delete(&name).await;
    stream::iter(names).map(delete).buffer_unordered(HANDS).collect::<()>().await;
}

/// Does the work while the first `count` WebServices are edited in turns, one after each pause.
pub async fn edited_meanwhile<T>(
    namespace: &TestNamespace,
    count: usize,
    pause: Duration,
    work: impl Future<Output = T>,
) -> T {
    let edit = async {
        let mut ticks = interval(pause);
        for edits in 1.. {
            ticks.tick().await;
            let replicas = json!({"spec": {"replicas": edits}});
            namespace.webservices().merge(&nth(edits % count), replicas).await;
        }
    };
    tokio::select! {
        () = edit => panic!("nobody edits for ever"),
        done = work => done,
    }
}

/// Waits until all of these are Ready.
pub async fn await_ready(namespace: &TestNamespace, numbers: Range<usize>) {
    within(PATIENCE, "all are Ready", async || {
        let ready: BTreeSet<_> = namespace
            .webservices()
            .list()
            .await
            .iter()
            .filter(|it| is_ready(it))
            .map(|it| name(it).to_owned())
            .collect();
        let missing = names(numbers.clone()).filter(|name| !ready.contains(name)).count();
        if missing == 0 { Ok(()) } else { Err(format!("{missing} are not")) }
    })
    .await;
}

/// Creates WebServices that no controller has seen, complete as the webhook would have made them.
pub async fn backlog(namespace: &TestNamespace, numbers: Range<usize>) -> Vec<RawWebService> {
    let client = namespace.client();
    let create = async |number| create(client, namespace.name(), &nth(number)).await;
    let created = stream::iter(numbers).map(create).buffer_unordered(HANDS).try_collect();
    created.await.must("create WebServices")
}

/// Creates WebServices that a controller has nothing left to do for: with their children, and Ready.
pub async fn at_rest(namespace: &TestNamespace, numbers: Range<usize>) {
    let owners = backlog(namespace, numbers).await;
    RawLoop::new(Writes::new(namespace.client().clone(), None)).run(owners, HANDS).await;
}

async fn create(client: &Client, namespace: &str, name: &str) -> kube::Result<RawWebService> {
    let object = webservice(name).replicas(1).tier("dev").finalizers([FINALIZER]);
    let body = Value::from(object).to_string().into_bytes();
    let requests = Request::new(RawWebService::url_path(&(), Some(namespace)));
    let request = requests.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// What a controller writes, without the controller: the same requests from the same client, with no cache to fill, no event
/// to wait for and nobody to tell.
pub struct RawLoop {
    writes: Arc<Writes>,
}

impl RawLoop {
    /// By way of the controller's client and one of its accounts.
    pub async fn of(kubeconfig: &Path) -> Self {
        let config = client::config(Some(kubeconfig.to_owned())).await.must("read a kubeconfig");
        let open = Fence::always_open(Arc::new(BootClock));
        let client = client::calling(&config, |_: &_, _| (), open).must("make a client");
        Self::new(Writes::new(client, None))
    }

    fn new(writes: Writes) -> Self {
        Self { writes: Arc::new(writes) }
    }

    /// Brings every one of the WebServices to rest, so many at a time.
    pub async fn run(&self, owners: Vec<RawWebService>, concurrency: usize) {
        let owners = Arc::new(Mutex::new(owners.into_iter()));
        let mut workers = JoinSet::new();
        for _ in 0..concurrency {
            let (writes, owners) = (Arc::clone(&self.writes), Arc::clone(&owners));
            let next = move || owners.lock().unwrap_or_else(PoisonError::into_inner).next();
            workers.spawn(async move {
                while let Some(owner) = next() {
                    bring_to_rest(&writes, owner).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.must("run a worker").must("write what a controller would");
        }
    }
}

async fn bring_to_rest(writes: &Writes, owner: RawWebService) -> Result<(), Failure> {
    let key = ObjectKey::of(&owner);
    let owner: Cached<WebServiceRecord> = cached(owner)?;
    let spec = owner.spec.as_ref().map_err(|fault| Failure::internal("read a spec", fault))?;
    let Creation::Created(child) = writes.create_child(&key, &owner.uid, spec).await? else {
        return Err(Failure::AlreadyExists);
    };
    let seen = Observation { key, child: Child::Seen(child), gate: Gate::Open, owner };
    report(writes, &(), &seen, status(&seen, &decide(&seen))).await.map(drop)
}
