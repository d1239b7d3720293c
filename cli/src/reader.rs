//! Fills the controller's caches with lists instead of watches, and asks for what lists cannot show.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use webservice_api::constants::{CHILD_SELECTOR, child_name};
use webservice_controller::engine::{Cached, ObjectKey, Scope, Store};
use webservice_controller::failure::Failure;
use webservice_controller::observe::{Caches, Child, Observation, look};
use webservice_controller::records::{RawChild, RawWebService, WebServiceRecord};
use webservice_controller::writes::{Writes, cached};

use crate::args::Connection;
use crate::connect::{Connected, connect};
use crate::error::{Error, root_cause};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// What one page may take.
const ANSWER: Duration = Duration::from_secs(15);

/// See the [module](self).
pub(crate) struct Reader {
    client: Client,
    server: String,
    /// The requests of passes.
    pub(crate) writes: Writes,
    /// The namespace that was asked for.
    pub(crate) namespace: String,
}

impl Reader {
    /// Prepares a connection.
    pub(crate) async fn connect(wanted: &Connection) -> Result<Self, Error> {
        let Connected { client, server, namespace } = connect(wanted).await?;
        Ok(Self { writes: Writes::new(client.clone(), None), client, server, namespace })
    }

    /// The key of `name` in the namespace that was asked for.
    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.namespace, name)
    }

    /// What there is in `scope` now.
    pub(crate) async fn caches(&self, scope: &Scope) -> Result<Caches, Error> {
        let caches = Caches {
            webservices: Arc::new(Store::new([scope.clone()])),
            children: Arc::new(Store::new([scope.clone()])),
        };
        let all = ListParams::default();
        let ours = ListParams::default().labels(CHILD_SELECTOR);
        self.fill::<RawWebService, _>("list webservices", &caches.webservices, scope, all).await?;
        self.fill::<RawChild, _>("list configmaps", &caches.children, scope, ours).await?;
        Ok(caches)
    }

    /// The WebServices in `scope` now.
    pub(crate) async fn webservices(&self, scope: &Scope) -> Result<Store<WebServiceRecord>, Error> {
        let webservices = Store::new([scope.clone()]);
        self.fill::<RawWebService, _>("list webservices", &webservices, scope, ListParams::default()).await?;
        Ok(webservices)
    }

    /// For other requests.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Looks at `key`. A child that the lists do not show is asked for by name: a map without our label is not in them.
    pub(crate) async fn look(
        &self,
        caches: &Caches,
        key: &ObjectKey,
    ) -> Result<Option<Observation>, Failure> {
        let Some(mut seen) = look(caches, key) else { return Ok(None) };
        if matches!(seen.child, Child::Unseen) {
            seen.child = Child::confirmed(self.writes.get_child(key).await?);
        }
        Ok(Some(seen))
    }

    /// Looks at `name` in the namespace that was asked for.
    pub(crate) async fn look_at(&self, name: &str) -> Result<(Caches, Observation), Error> {
        let key = self.key(name);
        let caches = self.caches(&Scope::Namespace(key.namespace().into())).await?;
        let seen = self.look(&caches, &key).await?;
        seen.map(|seen| (caches, seen)).ok_or(Error::NotFound { key })
    }

    /// Reads `key` and its child again.
    pub(crate) async fn refresh(&self, caches: &Caches, key: &ObjectKey) -> Result<(), Failure> {
        let api = Api::<RawWebService>::namespaced(self.client.clone(), key.namespace());
        let owner = match timeout(ANSWER, api.get_opt(key.name())).await {
            Ok(answer) => answer.map_err(|error| Failure::from_kube("get webservice", &error))?,
            Err(_) => return Err(Failure::Unavailable { what: "get webservice", message: no_answer() }),
        };
        let owner = owner.map(cached::<_, WebServiceRecord>).transpose()?;
        put(&caches.webservices, key.clone(), owner);
        let child_key = key.sibling(&child_name(key.name()));
        put(&caches.children, child_key, self.writes.get_child(key).await?);
        Ok(())
    }

    async fn fill<K, V>(
        &self,
        what: &'static str,
        store: &Store<V>,
        scope: &Scope,
        select: ListParams,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
        V: From<K> + PartialEq + Clone,
    {
        let api = match scope {
            Scope::Cluster => Api::<K>::all(self.client.clone()),
            Scope::Namespace(namespace) => Api::namespaced(self.client.clone(), namespace),
        };
        let mut params = select.limit(PAGE);
        store.begin_list(scope);
        loop {
            let page = match timeout(ANSWER, api.list(&params)).await {
                Ok(answer) => answer.map_err(|error| self.failed_list(what, &error))?,
                Err(_) => {
                    return Err(Error::Unreachable { server: self.server.clone(), reason: no_answer() });
                }
            };
            for object in page.items {
                let key = ObjectKey::of(&object);
                let Cached { version, value } = cached::<K, V>(object)?;
                store.listed(key, version, Arc::unwrap_or_clone(value));
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                store.end_list(scope);
                return Ok(());
            }
        }
    }

    /// The first list is the first request, so this is where a connection that cannot be made shows.
    fn failed_list(&self, what: &'static str, error: &kube::Error) -> Error {
        let server = self.server.clone();
        match error {
            kube::Error::Service(cause) => Error::Unreachable { server, reason: root_cause(&**cause) },
            kube::Error::HyperError(cause) => Error::Unreachable { server, reason: root_cause(cause) },
            kube::Error::Api(status) if status.code == 401 => Error::Unauthorized { server },
            other => match Failure::from_kube(what, other) {
                Failure::NotFound | Failure::NotServed { .. } => Error::NoCrd { server },
                failure => failure.into(),
            },
        }
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", ANSWER.as_secs())
}

/// Makes the store show what a request by name gave.
fn put<V: PartialEq + Clone>(store: &Store<V>, key: ObjectKey, found: Option<Cached<V>>) {
    match found {
        Some(found) => drop(store.applied(key, found.version, Arc::unwrap_or_clone(found.value))),
        None => drop(store.deleted(&key, u64::MAX)),
    }
}
