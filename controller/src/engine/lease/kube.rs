//! Leases in a real cluster.

use futures::{Stream, StreamExt, future};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use super::{LeaseApi, LeaseError};
use crate::engine::feeder::watch_config;

/// One Lease of the cluster. Needs the verbs `get`, `create`, `update` and `watch` on it.
///
/// Its client must not be inside the [`Fence`](super::Fence): it is what opens it.
#[derive(Clone, Debug)]
pub struct KubeLease {
    api: Api<Lease>,
    name: String,
}

impl KubeLease {
    /// The Lease `name` in `namespace`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }
}

impl LeaseApi for KubeLease {
    async fn get(&self) -> Result<Option<Lease>, LeaseError> {
        self.api.get_opt(&self.name).await.map_err(classify)
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.api.create(&PostParams::default(), lease).await.map_err(classify)
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.api.replace(&self.name, &PostParams::default(), lease).await.map_err(classify)
    }

    fn changes(&self) -> impl Stream<Item = Option<Lease>> + Send + 'static {
        let only_this = watch_config().fields(&format!("metadata.name={}", self.name));
        watcher::watcher(self.api.clone(), only_this)
            .default_backoff()
            // Errors are survived by the watcher, and a candidate that sees nothing looks for itself in time.
            .filter_map(|event| future::ready(event.ok()))
            .scan(false, |was_listed, event| future::ready(Some(change(was_listed, event))))
            .filter_map(future::ready)
    }
}

/// What an event says about the Lease, `None` if nothing. `was_listed`: the list that is running contained
/// it.
#[expect(clippy::option_option, reason = "nothing said, or said that there is no Lease")]
fn change(was_listed: &mut bool, event: watcher::Event<Lease>) -> Option<Option<Lease>> {
    match event {
        watcher::Event::Init => {
            *was_listed = false;
            None
        }
        watcher::Event::InitApply(lease) => {
            *was_listed = true;
            Some(Some(lease))
        }
        watcher::Event::InitDone => (!*was_listed).then_some(None),
        watcher::Event::Apply(lease) => Some(Some(lease)),
        watcher::Event::Delete(_) => Some(None),
    }
}

fn classify(error: kube::Error) -> LeaseError {
    match error {
        // Changed, gone, or made by somebody else meanwhile.
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => LeaseError::Refused,
        error => LeaseError::Failed(error.to_string()),
    }
}
