//! For tests: a namespace `shop` as the caches show it, built from objects as the API server would send them.

use serde_json::{Value, json};
use webservice_api::WebServiceSpec;
use webservice_api::child;
use webservice_api::constants::{API_VERSION, FINALIZER, KIND};

use crate::dependencies::Dependents;
use crate::engine::{Cached, ObjectKey, Scope, Store};
use crate::observe::{Caches, Child, Observation, look};
use crate::records::{RawChild, RawWebService};
use crate::writes::cached;

pub(crate) const NAMESPACE: &str = "shop";

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new(NAMESPACE, name)
}

/// A WebService `checkout` in the making, with the child that belongs to it or another one.
pub(crate) struct Scene {
    owner: Value,
    child: Option<Value>,
    others: Vec<Value>,
    child_is_confirmed_gone: bool,
}

/// A WebService as it stands after the webhook, with an image, its finalizer and no child.
pub(crate) fn webservice(name: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "10",
            "generation": 2, "finalizers": [FINALIZER],
        },
        "spec": {"image": "nginx:1.27", "replicas": 3, "tier": "dev"},
    })
}

pub(crate) fn ready(mut webservice: Value, status: &str, reason: &str) -> Value {
    webservice["status"] = json!({
        "replicas": 3,
        "observedGeneration": 2,
        "conditions": [{
            "type": "Ready", "status": status, "reason": reason, "message": "", "observedGeneration": 2,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    webservice
}

/// A scene in which the child does not exist.
pub(crate) fn checkout() -> Scene {
    Scene { owner: webservice("checkout"), child: None, others: Vec::new(), child_is_confirmed_gone: false }
}

impl Scene {
    /// Changes the WebService.
    pub(crate) fn owner(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.owner);
        self
    }

    /// Lets the child exist as it should be.
    pub(crate) fn with_child(self) -> Self {
        self.child(|_| {})
    }

    /// Lets the child exist, with a change.
    pub(crate) fn child(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let spec = WebServiceSpec {
            image: "nginx:1.27".into(),
            replicas: Some(3),
            tier: Some("dev".into()),
            ..WebServiceSpec::default()
        };
        let child = child::desired(NAMESPACE, "checkout", "uid-of-checkout", &spec);
        let mut child = serde_json::to_value(child).unwrap();
        child["metadata"]["uid"] = json!("uid-of-child");
        child["metadata"]["resourceVersion"] = json!("20");
        change(&mut child);
        self.child = Some(child);
        self
    }

    /// Lets a GET or DELETE have said that there is no child.
    pub(crate) fn child_confirmed_gone(mut self) -> Self {
        self.child_is_confirmed_gone = true;
        self
    }

    /// Lets deletion have begun.
    pub(crate) fn deleting(self) -> Self {
        self.owner(|owner| owner["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))
    }

    /// Puts another WebService beside it.
    pub(crate) fn beside(mut self, webservice: Value) -> Self {
        self.others.push(webservice);
        self
    }

    pub(crate) fn caches(&self) -> Caches {
        let scope = || [Scope::Namespace(NAMESPACE.into())];
        let caches = Caches { webservices: Store::new(scope()).into(), children: Store::new(scope()).into() };
        for webservice in self.others.iter().chain([&self.owner]) {
            put(&caches.webservices, serde_json::from_value::<RawWebService>(webservice.clone()).unwrap());
        }
        if let Some(child) = &self.child {
            put(&caches.children, serde_json::from_value::<RawChild>(child.clone()).unwrap());
        }
        caches
    }

    pub(crate) fn observation(&self) -> Observation {
        let seen = look(&self.caches(), &key("checkout")).expect("checkout exists");
        if self.child_is_confirmed_gone { Observation { child: Child::Gone, ..seen } } else { seen }
    }
}

fn put<K: kube::ResourceExt, V: From<K> + PartialEq + Clone>(store: &Store<V>, object: K) {
    let key = ObjectKey::of(&object);
    let Cached { version, value } = cached::<K, V>(object).unwrap();
    store.applied(key, version, (*value).clone());
}

/// What an index of dependents gives when `store` is filled one by one.
pub(crate) fn dependents(caches: &Caches) -> Dependents {
    let index = Dependents::default();
    caches.webservices.for_each(|key, record| {
        index.follow(key, &crate::engine::Change::Added(std::sync::Arc::new(record.clone())));
    });
    index
}
