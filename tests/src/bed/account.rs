//! The service account of a namespace's controller, with exactly the rights that the chart grants.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::must::Must;
use super::namespace::TestNamespace;
use crate::cluster::pki::Credentials;

const NAME: &str = "webservice-controller";

/// An account and a kubeconfig with its token.
#[derive(Clone, Debug)]
pub struct Account {
    /// The user name in the API server's eyes.
    pub user: String,
    /// The file.
    pub kubeconfig: PathBuf,
}

impl Account {
    /// Makes the account and grants it `rules` in the namespace.
    pub(super) async fn create(namespace: &TestNamespace, rules: Vec<PolicyRule>) -> Self {
        let (client, name) = (namespace.client(), namespace.name());
        let account = ServiceAccount { metadata: named(), ..ServiceAccount::default() };
        apply(client, name, &account).await;
        grant(client, name, rules).await;
        apply(client, name, &binding(name)).await;

        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), name);
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let token = accounts.create_token_request(NAME, &PostParams::default(), &request).await;
        let token = token.must("request a token").status.map(|status| status.token).unwrap_or_default();
        let authority = namespace.cluster().authority().must("open the cluster's authority");
        let text = authority.kubeconfig(namespace.cluster().server(), &Credentials::Token(token));
        let kubeconfig = namespace.directory().join("controller.kubeconfig");
        fs::write(&kubeconfig, text).must("write a kubeconfig");
        Self { user: format!("system:serviceaccount:{name}:{NAME}"), kubeconfig }
    }
}

/// Grants the account these rights and no others.
pub(super) async fn grant(client: &Client, namespace: &str, rules: Vec<PolicyRule>) {
    apply(client, namespace, &Role { metadata: named(), rules: Some(rules) }).await;
}

fn binding(namespace: &str) -> RoleBinding {
    RoleBinding {
        metadata: named(),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "Role".into(),
            name: NAME.into(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: NAME.into(),
            namespace: Some(namespace.into()),
            ..Subject::default()
        }]),
    }
}

fn named() -> ObjectMeta {
    ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() }
}

async fn apply<K>(client: &Client, namespace: &str, object: &K)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let params = PatchParams::apply("webservice-tests").force();
    let api = Api::<K>::namespaced(client.clone(), namespace);
    api.patch(NAME, &params, &Patch::Apply(object)).await.must(&format!("apply {} {NAME}", K::kind(&())));
}
