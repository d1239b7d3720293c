//! Admission policies that are in force in one namespace alone: what administrators forbid, and what other programs change.

use http::Request;
use kube::Client;
use serde_json::{Value, json};
use webservice_api::constants::{GROUP, PLURAL};

use super::builders::config_map;
use super::eventually::eventually;
use super::must::Must;
use super::namespace::TestNamespace;
use super::objects::Objects;

/// The ConfigMap that tells, without ever being stored, whether the policy is in force.
const PROBE: &str = "policy-probe";
/// The API group's versions, newest first. Kubernetes before 1.36 has mutating policies in the second alone.
const VERSIONS: [&str; 2] = ["admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"];

/// A policy on what is created and changed among the ConfigMaps and WebServices of a namespace, but for the status. It goes
/// with the namespace.
pub struct Policy {
    name: String,
    api: &'static str,
    bindings: &'static str,
    config_maps: Objects,
    client: Client,
}

impl Policy {
    /// Refuses with 422 whatever the CEL `expression` on `object` does not hold of.
    pub(super) async fn validating(namespace: &TestNamespace, expression: &str) -> Self {
        let probe = format!("object.metadata.name != '{PROBE}'");
        let spec = json!({"validations": [{"expression": expression}, {"expression": probe}]});
        let binding = json!({"validationActions": ["Deny"]});
        Self::create(namespace, "Validating", spec, binding).await
    }

    /// Applies the list of `JSONPatch` that the CEL `expression` on `object` and `oldObject` gives.
    pub(super) async fn mutating(namespace: &TestNamespace, expression: &str) -> Self {
        let touch = "[JSONPatch{op: 'add', path: '/data/touched', value: 'yes'}]";
        let guarded = format!("object.metadata.name == '{PROBE}' ? {touch} : ({expression})");
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": guarded}});
        let spec = json!({"reinvocationPolicy": "Never", "mutations": [mutation]});
        Self::create(namespace, "Mutating", spec, json!({})).await
    }

    async fn create(
        namespace: &TestNamespace,
        kind: &'static str,
        mut spec: Value,
        mut binding: Value,
    ) -> Self {
        let (policies, bindings) = match kind {
            "Validating" => ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
            _ => ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        };
        let name = format!("{}-{}", namespace.name(), namespace.next());
        let rule = |group: &str, version: &str, resource: &str| json!({"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": ["CREATE", "UPDATE"]});
        let only_here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}});
        spec["failurePolicy"] = json!("Fail");
        spec["matchConstraints"] = json!({
            "namespaceSelector": only_here,
            "resourceRules": [rule("", "v1", "configmaps"), rule(GROUP, "*", PLURAL)],
        });
        binding["policyName"] = json!(name);
        let owner = json!({"apiVersion": "v1", "kind": "Namespace", "name": namespace.name(), "uid": namespace.uid()});
        let metadata = json!({"name": name, "ownerReferences": [owner]});
        let client = namespace.client().clone();
        let api = served(&client, policies).await;
        let policy = Self { name, api, bindings, config_maps: namespace.config_maps(), client };
        let object = |kind: String, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec});
        policy.post(policies, &object(format!("{kind}AdmissionPolicy"), spec)).await;
        policy.post(bindings, &object(format!("{kind}AdmissionPolicyBinding"), binding)).await;
        policy.await_in_force(true).await;
        policy
    }

    /// Takes it out of force.
    pub async fn lift(&self) {
        let request =
            Request::delete(format!("/apis/{}/{}/{}", self.api, self.bindings, self.name)).body(Vec::new());
        let answer = self.client.request::<Value>(request.must("build a request")).await;
        answer.must("lift a policy");
        self.await_in_force(false).await;
    }

    async fn post(&self, resource: &str, object: &Value) {
        let request = Request::post(format!("/apis/{}/{resource}", self.api))
            .header("Content-Type", "application/json");
        let request = request.body(object.to_string().into_bytes()).must("build a request");
        self.client.request::<Value>(request).await.must(&format!("create {object:#}"));
    }

    /// The API server takes a moment to notice.
    async fn await_in_force(&self, expected: bool) {
        let probe = config_map(PROBE);
        eventually(&format!("the policy is in force: {expected}"), async || {
            let answer = self.config_maps.try_accept(probe.clone()).await;
            let is_in_force = !answer.as_ref().is_ok_and(|stored| stored["data"] == probe["data"]);
            if is_in_force == expected { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await;
    }
}

/// The newest version of the API group in which the API server has this resource.
async fn served(client: &Client, resource: &str) -> &'static str {
    for version in VERSIONS {
        let request = Request::get(format!("/apis/{version}/{resource}?limit=1")).body(Vec::new());
        let answer = client.request::<Value>(request.must("build a request")).await;
        if answer.is_ok() {
            return version;
        }
    }
    panic!("the API server knows no {resource}")
}
