//! The objects of one kind in one namespace, as JSON, so that tests see what people see.

use std::fmt::Display;

use http::Request;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::dynamic::DynamicObject;
use kube::core::{ApiResource, Request as Requests, Status, request};
use kube::{Client, Error, Resource};
use serde_json::{Value, json};

use super::eventually::eventually;
use super::must::Must;

/// The field manager of what tests apply.
const MANAGER: &str = "webservice-tests";

/// The object after a request, or why the API server refused it.
pub type Answer = Result<Value, Box<Status>>;

/// Objects of one kind, in a namespace or, where its name is empty, in the cluster. Every request is the administrator's; a refusal panics unless the method's name begins with `try_`.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    resource: ApiResource,
    namespace: String,
}

impl Objects {
    pub(super) fn new(client: Client, resource: ApiResource, namespace: &str) -> Self {
        Self { client, resource, namespace: namespace.to_owned() }
    }

    /// Creates an object.
    pub async fn create(&self, object: impl Into<Value>) -> Value {
        let object = object.into();
        accepted(self.try_create(object.clone()).await, "create", &object)
    }

    /// Creates an object, if it is accepted.
    pub async fn try_create(&self, object: impl Into<Value>) -> Answer {
        self.post(&object.into(), &PostParams::default()).await
    }

    /// Gives the object as it would be stored, without storing it.
    pub async fn accepts(&self, object: impl Into<Value>) -> Value {
        let object = object.into();
        accepted(self.try_accept(object.clone()).await, "create", &object)
    }

    /// The same, if it would be accepted.
    pub async fn try_accept(&self, object: impl Into<Value>) -> Answer {
        self.post(&object.into(), &dry_run()).await
    }

    /// Gives the refusal of an object that must not be stored.
    pub async fn rejects(&self, object: impl Into<Value>) -> Status {
        let object = object.into();
        match self.try_accept(object).await {
            Ok(stored) => panic!("accepted, but must be refused: {stored:#}"),
            Err(refusal) => *refusal,
        }
    }

    /// Applies an object on the server, taking over fields of others.
    pub async fn apply(&self, object: impl Into<Value>) -> Value {
        let object = object.into();
        let params = PatchParams::apply(MANAGER).force();
        let request = self.requests().patch(name(&object), &params, &Patch::Apply(&object));
        accepted(self.send(request).await, "apply", &object)
    }

    /// Replaces an object by another of its name.
    pub async fn try_replace(&self, object: impl Into<Value>) -> Answer {
        let object = object.into();
        self.send(self.requests().replace(name(&object), &PostParams::default(), object.to_string().into()))
            .await
    }

    /// The object of this name, which must exist.
    pub async fn get(&self, name: &str) -> Value {
        match self.find(name).await {
            Some(object) => object,
            None => panic!("{} {name} does not exist", self.resource.kind),
        }
    }

    /// The object of this name, if there is one.
    pub async fn find(&self, name: &str) -> Option<Value> {
        match self.send(self.requests().get(name, &GetParams::default())).await {
            Ok(object) => Some(object),
            Err(refusal) if refusal.is_not_found() => None,
            Err(refusal) => panic!("failed to get {} {name}: {refusal}", self.resource.kind),
        }
    }

    /// All of them.
    pub async fn list(&self) -> Vec<Value> {
        match self.try_list().await {
            Ok(objects) => objects,
            Err(refusal) => panic!("failed to list {}: {refusal}", self.resource.plural),
        }
    }

    /// All of them, if there is such a resource.
    pub async fn try_list(&self) -> Result<Vec<Value>, Box<Status>> {
        let mut list = self.send(self.requests().list(&ListParams::default())).await?;
        match list["items"].take() {
            Value::Array(objects) => Ok(objects),
            other => panic!("a list without items: {other}"),
        }
    }

    /// Merges `patch` into an object (RFC 7386).
    pub async fn merge(&self, name: &str, patch: Value) -> Value {
        accepted(self.try_merge(name, &patch).await, "patch", &patch)
    }

    /// Merges `patch` into an object, if that is accepted.
    pub async fn try_merge(&self, name: &str, patch: &Value) -> Answer {
        self.send(self.requests().patch(name, &PatchParams::default(), &Patch::Merge(patch))).await
    }

    /// Merges `patch` into an object through its status subresource.
    pub async fn merge_status(&self, name: &str, patch: Value) -> Value {
        let (params, merge) = (PatchParams::default(), Patch::Merge(&patch));
        accepted(
            self.send(self.requests().patch_subresource("status", name, &params, &merge)).await,
            "patch the status with",
            &patch,
        )
    }

    /// Deletes an object in the background, as kubectl does.
    pub async fn delete(&self, name: &str) {
        self.delete_with(name, &DeleteParams::background()).await;
    }

    /// The same, if it is there and may be deleted.
    pub async fn try_delete(&self, name: &str) -> Answer {
        self.send(self.requests().delete(name, &DeleteParams::background())).await
    }

    /// Deletes an object in another way.
    pub async fn delete_with(&self, name: &str, params: &DeleteParams) {
        accepted(self.send(self.requests().delete(name, params)).await, "delete", name);
    }

    /// Waits until the object of this name exists and is as it should be.
    pub async fn await_that(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{} {name} {what}", self.resource.kind);
        eventually(&what, async || match self.find(name).await {
            Some(object) if holds(&object) => Ok(object),
            Some(object) => Err(format!("{:#}", without_managed_fields(object))),
            None => Err("no such object".into()),
        })
        .await
    }

    /// Waits until there is no object of this name.
    pub async fn await_gone(&self, name: &str) {
        let what = format!("{} {name} is gone", self.resource.kind);
        eventually(&what, async || {
            self.find(name)
                .await
                .map_or(Ok(()), |object| Err(format!("{:#}", without_managed_fields(object))))
        })
        .await;
    }

    async fn post(&self, object: &Value, params: &PostParams) -> Answer {
        self.send(self.requests().create(params, object.to_string().into())).await
    }

    fn requests(&self) -> Requests {
        let namespace = Some(&*self.namespace).filter(|namespace| !namespace.is_empty());
        Requests::new(DynamicObject::url_path(&self.resource, namespace))
    }

    async fn send(&self, request: Result<Request<Vec<u8>>, request::Error>) -> Answer {
        match self.client.request::<Value>(request.must("build a request")).await {
            Ok(object) => Ok(object),
            Err(Error::Api(status)) => Err(status),
            Err(error) => Err(error).must("reach the API server"),
        }
    }
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

fn accepted(answer: Answer, what: &str, object: &(impl Display + ?Sized)) -> Value {
    answer.unwrap_or_else(|refusal| panic!("failed to {what} {object:#}: {refusal}"))
}

/// The object as people want to read it.
pub(super) fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

/// Its `metadata.name`.
#[must_use]
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Its `metadata.uid`.
#[must_use]
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Its `metadata.resourceVersion`, which is another one after every write that changed something.
#[must_use]
pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// Its condition of this type; null if it has none.
#[must_use]
pub fn condition<'o>(object: &'o Value, type_: &str) -> &'o Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// Whether its status says Ready, of the spec as it is now.
#[must_use]
pub fn is_ready(object: &Value) -> bool {
    condition(object, "Ready")["status"] == "True" && is_observed(object)
}

/// Whether its status speaks of the spec as it is now.
pub(super) fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// A patch that takes all finalizers away.
pub(super) fn no_finalizers() -> Value {
    json!({"metadata": {"finalizers": null}})
}
