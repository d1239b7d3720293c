//! An account with rights in one namespace and in the cluster, as the chart grants them.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use webservice_api::rbac::{Names, all};

use super::account::{await_rights, user};
use super::must::Must;
use super::namespace::TestNamespace;
use super::rights::role_name;
use crate::cluster::pki::Credentials;

/// Rights by the names of the chart's sets of them.
pub struct Rights<'r> {
    /// In the namespace.
    pub here: &'r [&'r str],
    /// In the whole cluster.
    pub in_cluster: &'r [&'r str],
    /// The objects that they are limited to.
    pub names: Names,
}

/// Makes the account `name` with these rights, and gives its kubeconfig. All of it goes with the namespace.
pub async fn kubeconfig_with(namespace: &TestNamespace, name: &str, rights: &Rights<'_>) -> PathBuf {
    let (client, here) = (namespace.client(), namespace.name());
    let role = role_name(rights.here, name);
    let cluster_role = role_name(rights.in_cluster, &format!("{here}-{name}"));
    let account = ServiceAccount { metadata: named(name), ..ServiceAccount::default() };
    create(&Api::namespaced(client.clone(), here), &account).await;
    let rules = [rights.here, rights.in_cluster].map(|sets| rules(sets, &rights.names));
    let [rules_here, rules_in_cluster] = rules.clone().map(Some);
    create(&Api::namespaced(client.clone(), here), &Role { metadata: named(&role), rules: rules_here }).await;
    let binding = RoleBinding {
        metadata: named(name),
        role_ref: role_ref("Role", &role),
        subjects: Some(vec![subject(here, name)]),
    };
    create(&Api::namespaced(client.clone(), here), &binding).await;

    let owned = || ObjectMeta { owner_references: Some(vec![owner(namespace)]), ..named(&cluster_role) };
    let granted = ClusterRole { metadata: owned(), rules: rules_in_cluster, ..ClusterRole::default() };
    create(&Api::all(client.clone()), &granted).await;
    let binding = ClusterRoleBinding {
        metadata: owned(),
        role_ref: role_ref("ClusterRole", &cluster_role),
        subjects: Some(vec![subject(here, name)]),
    };
    create(&Api::all(client.clone()), &binding).await;
    for (place, rules) in [Some(here), None].into_iter().zip(&rules) {
        await_rights(client, place, &user(here, name), rules, &[]).await;
    }
    write_kubeconfig(namespace, client, name).await
}

/// The namespace as the owner of what is not in it.
pub(super) fn owner(namespace: &TestNamespace) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Namespace".into(),
        name: namespace.name().into(),
        uid: namespace.uid().into(),
        ..OwnerReference::default()
    }
}

fn rules(sets: &[&str], names: &Names) -> Vec<PolicyRule> {
    let granted = all(names);
    let of = |name: &&str| match granted.iter().find(|set| set.name == *name) {
        Some(set) => set.grants.iter().map(PolicyRule::from).collect::<Vec<_>>(),
        None => panic!("the chart grants no rights called {name}"),
    };
    sets.iter().flat_map(of).collect()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: "rbac.authorization.k8s.io".into(), kind: kind.into(), name: name.into() }
}

fn subject(namespace: &str, name: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".into(),
        name: name.into(),
        namespace: Some(namespace.into()),
        ..Subject::default()
    }
}

async fn create<K>(api: &Api<K>, object: &K)
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    api.create(&PostParams::default(), object).await.must(&format!("create a {}", K::kind(&())));
}

async fn write_kubeconfig(namespace: &TestNamespace, client: &Client, name: &str) -> PathBuf {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace.name());
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let token = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let token = token.must("request a token").status.map(|status| status.token).unwrap_or_default();
    let authority = namespace.cluster().authority().must("open the cluster's authority");
    let text = authority.kubeconfig(namespace.cluster().server(), &Credentials::Token(token));
    let path = namespace.directory().join(format!("{name}.kubeconfig"));
    fs::write(&path, text).must("write a kubeconfig");
    path
}
