//! Observations for tests, made from JSON as the API server would give it. All live in namespace `shop`.

use std::sync::Arc;

use serde_json::{Value, json};
use webservice_controller::engine::{Cached, ObjectKey, Scope, Store};
use webservice_controller::observe::{Caches, Child, Observation, look};
use webservice_controller::records::{RawChild, RawWebService};

/// A plain WebService that no controller has looked at.
pub(crate) fn checkout() -> Value {
    webservice("checkout", json!({"image": "nginx:1.27", "replicas": 3, "tier": "dev"}))
}

/// A WebService that no controller has looked at.
pub(crate) fn webservice(name: &str, spec: Value) -> Value {
    let mut webservice = json!({
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid(name),
            "generation": 1,
            "finalizers": ["webservice.labhub.io/cleanup"],
        },
        "status": {"conditions": [condition("Ready", "Unknown", "Pending", "Waiting for the controller")]},
    });
    webservice["spec"] = spec;
    webservice
}

/// The same after a pass that ended like this.
pub(crate) fn reported(mut webservice: Value, ready: &str, reason: &str, message: &str) -> Value {
    let conditions = [condition("Ready", ready, reason, message)];
    webservice["status"] = json!({"observedGeneration": 1, "replicas": 0, "conditions": conditions});
    webservice
}

/// The same once its deletion has begun.
pub(crate) fn deleted(mut webservice: Value) -> Value {
    webservice["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    webservice
}

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let since = "2026-01-01T00:00:00Z";
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
}

/// Caches that hold these WebServices and no children.
pub(crate) fn caches(webservices: impl IntoIterator<Item = Value>) -> Caches {
    let caches = Caches {
        webservices: Arc::new(Store::new([Scope::Cluster])),
        children: Arc::new(Store::new([Scope::Cluster])),
    };
    for webservice in webservices {
        let raw: RawWebService = serde_json::from_value(webservice).unwrap();
        caches.webservices.applied(ObjectKey::of(&raw), 7, raw.into());
    }
    caches
}

/// What is seen of `webservice`, whose child is confirmed absent, in the company of others.
pub(crate) fn seen_among(others: impl IntoIterator<Item = Value>, webservice: Value) -> Observation {
    let key = ObjectKey::new("shop", webservice["metadata"]["name"].as_str().unwrap());
    let seen = look(&caches(others.into_iter().chain([webservice])), &key).unwrap();
    Observation { child: Child::Gone, ..seen }
}

/// What is seen of `webservice`, whose child is confirmed absent.
pub(crate) fn seen(webservice: Value) -> Observation {
    seen_among([], webservice)
}

/// What is seen of `webservice` beside a map of its own that holds `data`.
pub(crate) fn with_child(webservice: Value, data: Value) -> Observation {
    let name = &webservice["metadata"]["name"];
    let owner = json!({
        "apiVersion": "apps.labhub.io/v1",
        "kind": "WebService",
        "name": name,
        "uid": webservice["metadata"]["uid"],
        "controller": true,
    });
    let labels =
        json!({"app.kubernetes.io/managed-by": "webservice-controller", "app.kubernetes.io/name": name});
    let metadata = json!({"labels": labels, "ownerReferences": [owner]});
    with_map(webservice, metadata, data)
}

/// What is seen of `webservice` beside some map of the child's name.
pub(crate) fn with_map(webservice: Value, metadata: Value, data: Value) -> Observation {
    let seen = seen(webservice);
    let mut map = json!({});
    map["metadata"] = metadata;
    map["metadata"]["name"] = json!(seen.child_name());
    map["data"] = data;
    let raw: RawChild = serde_json::from_value(map).unwrap();
    Observation { child: Child::Seen(Cached { version: 9, value: Arc::new(raw.into()) }), ..seen }
}

fn uid(name: &str) -> String {
    format!("uid-of-{name}")
}
