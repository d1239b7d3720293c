//! The requests that a pass makes, each with a deadline, preconditions and a classified failure.
//!
//! What is written is noted with the own-write guard, so that the next pass waits until the caches show it.

use std::sync::Arc;
use std::time::Duration;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, TestOperation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::timeout;
use webservice_api::constants::{
    API_VERSION, FIELD_MANAGER, FINALIZER, KIND, MANAGED_BY, MANAGED_BY_LABEL, child_name,
};
use webservice_api::{WebServiceSpec, WebServiceStatus, child};

use crate::engine::store::Cache;
use crate::engine::{Cached, ObjectKey, OwnWrites, Written};
use crate::failure::Failure;
use crate::observe::Caches;
use crate::records::{ChildRecord, RawChild, RawWebService, WebServiceRecord, is_webservice};

/// What one request may take.
const CALL: Duration = Duration::from_secs(10);

/// See the [module](self).
pub struct Writes {
    client: Client,
    guard: Option<Guard>,
}

/// Where writes are noted. The plugin reads without a cache and needs none.
pub struct Guard {
    /// The own-write guard.
    pub own_writes: Arc<OwnWrites<ObjectKey>>,
    /// The caches that will show the writes.
    pub caches: Caches,
}

/// How the creation of a child ended.
pub enum Creation {
    /// It is there, made by us.
    Created(Cached<ChildRecord>),
    /// One was there already.
    AlreadyExists,
}

/// How the deletion of a child ended.
pub enum Deletion {
    /// It is gone.
    Gone,
    /// Somebody's finalizer holds it.
    Terminating(Cached<ChildRecord>),
}

impl Writes {
    /// Requests by way of `client`, noted with `guard`.
    #[must_use]
    pub fn new(client: Client, guard: Option<Guard>) -> Self {
        Self { client, guard }
    }

    /// Reads the ConfigMap of the child's name.
    pub async fn get_child(&self, owner: &ObjectKey) -> Result<Option<Cached<ChildRecord>>, Failure> {
        let name = child_name(owner.name());
        match call("get configmap", self.children(owner).get(&name)).await {
            Ok(child) => Ok(Some(cached(child)?)),
            Err(Failure::NotFound) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Creates the child.
    pub async fn create_child(
        &self,
        owner: &ObjectKey,
        uid: &str,
        spec: &WebServiceSpec,
    ) -> Result<Creation, Failure> {
        let child = child::desired(owner.namespace(), owner.name(), uid, spec);
        let body =
            serde_json::to_vec(&child).map_err(|error| Failure::internal("encode the child", &error))?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let request = Request::new(ConfigMap::url_path(&(), Some(owner.namespace())))
            .create(&params, body)
            .map_err(|error| Failure::internal("build the creation of the child", &error))?;
        match call("create configmap", self.client.request::<RawChild>(request)).await {
            Ok(child) => self.wrote_child(owner, child).map(Creation::Created),
            Err(Failure::AlreadyExists) => Ok(Creation::AlreadyExists),
            Err(failure) => Err(failure),
        }
    }

    /// Puts our fields of our child back. Uid and version make sure that it is the child that was looked at: an apply
    /// without uid would create it anew.
    pub async fn apply_child(
        &self,
        owner: &ObjectKey,
        uid: &str,
        spec: &WebServiceSpec,
        seen: &Cached<ChildRecord>,
    ) -> Result<Cached<ChildRecord>, Failure> {
        let mut child = child::desired(owner.namespace(), owner.name(), uid, spec);
        child.metadata.uid = Some(seen.uid.to_string());
        child.metadata.resource_version = Some(seen.version.to_string());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let name = child_name(owner.name());
        let applied =
            call("apply configmap", self.children(owner).patch(&name, &params, &Patch::Apply(&child))).await;
        self.wrote_child(owner, self.or_conflict(owner, Object::Child, seen.version, applied)?)
    }

    /// Makes the WebService the controller of a child that has none or a dead one. By PUT of the whole object: an apply would
    /// be refused, as there would be two controllers.
    pub async fn adopt_child(
        &self,
        owner: &ObjectKey,
        uid: &str,
        spec: &WebServiceSpec,
        seen: &Cached<ChildRecord>,
    ) -> Result<Cached<ChildRecord>, Failure> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), owner.namespace());
        let name = child_name(owner.name());
        let mut whole = call("get configmap", api.get(&name)).await?;
        if whole.metadata.uid.as_deref() != Some(&seen.uid)
            || whole.metadata.resource_version != Some(seen.version.to_string())
        {
            return self.or_conflict(owner, Object::Child, seen.version, Err(Failure::Conflict));
        }
        let desired = child::desired(owner.namespace(), owner.name(), uid, spec);
        whole.owner_references_mut().retain(|other| !(is_webservice(other) && other.name == owner.name()));
        whole.owner_references_mut().push(child::owner_reference(owner.name(), uid));
        whole.labels_mut().extend(desired.metadata.labels.unwrap_or_default());
        // Data that cannot be put right stays as it is; what is wrong about it is the next decision's.
        if !seen.must_be_replaced {
            whole.data.get_or_insert_default().extend(desired.data.unwrap_or_default());
        }
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let body =
            serde_json::to_vec(&whole).map_err(|error| Failure::internal("encode the child", &error))?;
        let request = Request::new(ConfigMap::url_path(&(), Some(owner.namespace())))
            .replace(&name, &params, body)
            .map_err(|error| Failure::internal("build the adoption of the child", &error))?;
        let adopted = call("adopt configmap", self.client.request::<RawChild>(request)).await;
        self.wrote_child(owner, self.or_conflict(owner, Object::Child, seen.version, adopted)?)
    }

    /// Deletes the child that was looked at, and no other.
    pub async fn delete_child(
        &self,
        owner: &ObjectKey,
        seen: &Cached<ChildRecord>,
    ) -> Result<Deletion, Failure> {
        let preconditions = Preconditions {
            uid: Some(seen.uid.to_string()),
            resource_version: Some(seen.version.to_string()),
        };
        let params = DeleteParams::background().preconditions(preconditions);
        let name = child_name(owner.name());
        let deleted = call("delete configmap", self.children(owner).delete(&name, &params)).await;
        match self.or_conflict(owner, Object::Child, seen.version, deleted) {
            Ok(answer) => match answer.left() {
                Some(child) if child.meta().deletion_timestamp.is_some() => {
                    self.wrote_child(owner, child).map(Deletion::Terminating)
                }
                _ => {
                    self.note(owner, Object::Child, Written::Gone(seen.version));
                    Ok(Deletion::Gone)
                }
            },
            Err(Failure::NotFound) => Ok(Deletion::Gone),
            Err(failure) => Err(failure),
        }
    }

    /// Adds the cleanup finalizer to a live WebService that came without it.
    pub async fn add_finalizer(
        &self,
        key: &ObjectKey,
        seen: &Cached<WebServiceRecord>,
    ) -> Result<Cached<WebServiceRecord>, Failure> {
        let (path, value) = if seen.finalizers.is_empty() {
            (pointer(["metadata", "finalizers"]), json!([FINALIZER]))
        } else {
            (pointer(["metadata", "finalizers", "-"]), json!(FINALIZER))
        };
        let unchanged = test(pointer(["metadata", "resourceVersion"]), seen.version.to_string());
        self.patch_owner(key, seen, vec![unchanged, PatchOperation::Add(AddOperation { path, value })]).await
    }

    /// Removes the cleanup finalizer, from wherever it is listed, however often; each removal is guarded by a test, so that
    /// a list that has changed meanwhile is left alone.
    pub async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        seen: &Cached<WebServiceRecord>,
    ) -> Result<(), Failure> {
        let uid = test(pointer(["metadata", "uid"]), seen.uid.to_string());
        let listed =
            seen.finalizers.iter().enumerate().rev().filter(|(_, finalizer)| ***finalizer == *FINALIZER);
        let removals = listed.flat_map(|(index, _)| {
            let path = pointer(["metadata", "finalizers", &index.to_string()]);
            [test(path.clone(), FINALIZER.into()), PatchOperation::Remove(RemoveOperation { path })]
        });
        let mut operations: Vec<_> = std::iter::once(uid).chain(removals).collect();
        let released = match self.patch_owner(key, seen, operations.clone()).await {
            // The scale subresource refuses every update of an object whose replicas are no number, and never ratchets. Mended,
            // it can go.
            Err(Failure::Rejected { code: 422, message })
                if seen.spec.is_err() && message.contains(".spec.replicas") =>
            {
                let path = pointer(["spec", "replicas"]);
                operations.push(PatchOperation::Add(AddOperation { path, value: json!(0) }));
                self.patch_owner(key, seen, operations).await
            }
            answer => answer,
        };
        match released {
            Ok(owner) if owner.has_finalizer(FINALIZER) => {
                let reason = format!("finalizer {FINALIZER} is there again");
                Err(Failure::Undone { target: format!("webservice/{}", key.name()), reason })
            }
            Ok(_) | Err(Failure::NotFound) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Writes the status of the WebService that was looked at. The version is the only precondition that the status
    /// subresource checks.
    pub async fn apply_status(
        &self,
        key: &ObjectKey,
        seen: &Cached<WebServiceRecord>,
        status: &WebServiceStatus,
    ) -> Result<(), Failure> {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": key.name(), "uid": seen.uid, "resourceVersion": seen.version.to_string()},
            "status": status,
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let api = self.webservices(key);
        let applied = call("apply status", api.patch_status(key.name(), &params, &Patch::Apply(&body))).await;
        let written = match applied {
            Err(Failure::Rejected { code: 500, .. }) => self.merge_status(key, seen, status).await,
            answer => answer,
        };
        let written = self.or_conflict(key, Object::Owner, seen.version, written)?;
        let written = self.wrote_owner(key, written)?;
        // What a merge has written before is not ours to an apply: it stays, unless it is merged away.
        if written.status.conditions.len() > status.conditions.len() {
            let merged = self.merge_status(key, &written, status).await?;
            self.wrote_owner(key, merged)?;
        }
        Ok(())
    }

    /// The status of an object that its schema no longer accepts, which an apply cannot read. A merge replaces the whole list of
    /// conditions, so those of others are asked for and written back.
    async fn merge_status(
        &self,
        key: &ObjectKey,
        seen: &Cached<WebServiceRecord>,
        status: &WebServiceStatus,
    ) -> Result<RawWebService, Failure> {
        let api = self.webservices(key);
        let stored = call("get webservice", api.get(key.name())).await?;
        let mut whole = status.clone();
        whole.conditions.extend(stored.foreign_conditions());
        let body = json!({"metadata": {"resourceVersion": seen.version.to_string()}, "status": whole});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        call("patch status", api.patch_status(key.name(), &params, &Patch::Merge(&body))).await
    }

    async fn patch_owner(
        &self,
        key: &ObjectKey,
        seen: &Cached<WebServiceRecord>,
        operations: Vec<PatchOperation>,
    ) -> Result<Cached<WebServiceRecord>, Failure> {
        let patch = Patch::<()>::Json(json_patch::Patch(operations));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let patched =
            call("patch webservice", self.webservices(key).patch(key.name(), &params, &patch)).await;
        let patched = patched.map_err(|failure| match failure {
            // The object is no longer the one that was looked at.
            Failure::Rejected { code: 422, message } if is_failed_test(&message) => Failure::Conflict,
            failure => failure,
        });
        self.wrote_owner(key, self.or_conflict(key, Object::Owner, seen.version, patched)?)
    }

    /// After a conflict the next pass waits until the cache shows what was in the way.
    fn or_conflict<T>(
        &self,
        owner: &ObjectKey,
        object: Object,
        seen: u64,
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        if matches!(answer, Err(Failure::Conflict)) {
            self.note(owner, object, Written::Version(seen + 1));
        }
        answer
    }

    fn children(&self, owner: &ObjectKey) -> Api<RawChild> {
        Api::namespaced(self.client.clone(), owner.namespace())
    }

    fn webservices(&self, key: &ObjectKey) -> Api<RawWebService> {
        Api::namespaced(self.client.clone(), key.namespace())
    }

    fn wrote_child(&self, owner: &ObjectKey, child: RawChild) -> Result<Cached<ChildRecord>, Failure> {
        let has_our_label = child.labels().get(MANAGED_BY_LABEL).is_some_and(|value| value == MANAGED_BY);
        let child = cached(child)?;
        // The watch selects by label: of a child without it no event would come.
        if has_our_label {
            self.note(owner, Object::Child, Written::Version(child.version));
        }
        Ok(child)
    }

    fn wrote_owner(
        &self,
        key: &ObjectKey,
        owner: RawWebService,
    ) -> Result<Cached<WebServiceRecord>, Failure> {
        let owner: Cached<WebServiceRecord> = cached(owner)?;
        // Without its last finalizer it is gone, and the answer carries the version that it had before.
        let is_gone = owner.is_deleting && owner.finalizers.is_empty();
        let written = if is_gone { Written::Gone } else { Written::Version };
        self.note(key, Object::Owner, written(owner.version));
        Ok(owner)
    }

    fn note(&self, owner: &ObjectKey, object: Object, written: Written) {
        let Some(Guard { own_writes, caches }) = &self.guard else { return };
        let (cache, key): (Arc<dyn Cache>, _) = match object {
            Object::Owner => (Arc::clone(&caches.webservices) as _, owner.clone()),
            Object::Child => (Arc::clone(&caches.children) as _, owner.sibling(&child_name(owner.name()))),
        };
        own_writes.wrote(owner, cache, key, written);
    }
}

/// Which of the two objects of a pass.
#[derive(Clone, Copy)]
enum Object {
    Owner,
    Child,
}

/// Whether the API server says that a `test` of a JSON patch failed. It has two ways to, and neither names the operation.
pub(crate) fn is_failed_test(message: &str) -> bool {
    message.contains("testing path")
        || message == "the server rejected our request due to an error in our request"
}

fn pointer<'t>(tokens: impl IntoIterator<Item = &'t str>) -> PointerBuf {
    PointerBuf::from_tokens(tokens)
}

pub(crate) fn test(path: PointerBuf, value: String) -> PatchOperation {
    PatchOperation::Test(TestOperation { path, value: value.into() })
}

/// What the API server answered, as a cache would keep it.
pub fn cached<K: ResourceExt, V: From<K>>(object: K) -> Result<Cached<V>, Failure> {
    let version = object.meta().resource_version.as_deref().unwrap_or_default();
    match version.parse() {
        Ok(version) => Ok(Cached { version, value: Arc::new(object.into()) }),
        Err(error) => Err(Failure::internal("read a resourceVersion", &error)),
    }
}

/// Runs one request under the deadline.
pub(crate) async fn call<T>(
    what: &'static str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    match timeout(CALL, request).await {
        Ok(answer) => answer.map_err(|error| Failure::from_kube(what, &error)),
        Err(_) => {
            Err(Failure::Unavailable { what, message: format!("no answer within {} s", CALL.as_secs()) })
        }
    }
}
