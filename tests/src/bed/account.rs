//! The service account of a namespace's controller, with exactly the rights that the chart grants.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use webservice_api::rbac;

use super::eventually::eventually;
use super::must::Must;
use super::namespace::TestNamespace;
use super::rights::{announce_missing_rights, role_name};
use crate::cluster::pki::Credentials;

const NAME: &str = "webservice-controller";

/// What it may hold, by the names of the chart's sets.
const SETS: [&str; 2] = ["controller", "leader-election"];

/// An account and a kubeconfig with its token.
#[derive(Clone)]
pub struct Account {
    /// The user name in the API server's eyes.
    pub user: String,
    /// The file.
    pub kubeconfig: PathBuf,
    token: String,
}

impl Account {
    /// Makes the account and grants it `rules` in the namespace.
    pub(super) async fn create(namespace: &TestNamespace, rules: Vec<PolicyRule>) -> Self {
        let (client, name) = (namespace.client(), namespace.name());
        let account = Self::issue(namespace, NAME).await;
        grant(client, name, name, rules).await;
        account
    }

    /// Makes an account that shares the rights of the first, for a controller that calls can be told apart of.
    pub(super) async fn another(namespace: &TestNamespace, name: &str) -> Self {
        let account = Self::issue(namespace, name).await;
        apply(namespace.client(), namespace.name(), &binding(namespace.name(), name)).await;
        let rights = candidate_rights();
        await_rights(namespace.client(), Some(namespace.name()), &account.user, &rights, &[]).await;
        account
    }

    async fn issue(namespace: &TestNamespace, name: &str) -> Self {
        let client = namespace.client();
        let account = ServiceAccount { metadata: named(name), ..ServiceAccount::default() };
        apply(client, namespace.name(), &account).await;
        let token = request_token(client, namespace.name(), name, TokenRequestSpec::default()).await;
        let account = Self { user: user(namespace.name(), name), token, kubeconfig: PathBuf::new() };
        account.at(namespace, namespace.cluster().server())
    }

    /// The same account, with a kubeconfig that leads to the API server by another address.
    pub(super) fn at(&self, namespace: &TestNamespace, server: &str) -> Self {
        let authority = namespace.cluster().authority().must("open the cluster's authority");
        let text = authority.kubeconfig(server, &Credentials::Token(self.token.clone()));
        let kubeconfig = namespace.directory().join(format!("account-{}.kubeconfig", namespace.next()));
        fs::write(&kubeconfig, text).must("write a kubeconfig");
        Self { kubeconfig, ..self.clone() }
    }
}

/// Those of a controller that competes for a Lease.
pub(super) fn candidate_rights() -> Vec<PolicyRule> {
    [rbac::controller(), rbac::leader_election()].concat()
}

/// A token that lives as long as a Secret of this name.
pub(super) async fn revocable_token(client: &Client, namespace: &str, name: &str) -> String {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let secret = Secret { metadata, ..Secret::default() };
    let secret = secrets.create(&PostParams::default(), &secret).await.must("create a Secret");
    let bound = BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Secret".into()),
        name: Some(name.into()),
        uid: secret.metadata.uid,
    };
    let spec = TokenRequestSpec { bound_object_ref: Some(bound), ..TokenRequestSpec::default() };
    request_token(client, namespace, NAME, spec).await
}

/// Ends the token that is bound to this Secret.
pub(super) async fn revoke_token(client: &Client, namespace: &str, name: &str) {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    secrets.delete(name, &DeleteParams::default()).await.must("delete a Secret");
}

async fn request_token(client: &Client, namespace: &str, account: &str, spec: TokenRequestSpec) -> String {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let token = accounts.create_token_request(account, &PostParams::default(), &request).await;
    token.must("request a token").status.map(|status| status.token).unwrap_or_default()
}

/// Grants the account of the namespace `home` these rights in `namespace` and no others, and waits until the API server knows.
pub(super) async fn grant(client: &Client, home: &str, namespace: &str, rules: Vec<PolicyRule>) {
    if rbac::controller().iter().any(|rule| !rules.contains(rule)) {
        announce_missing_rights(client, home).await;
    }
    let role = Role { metadata: named(&role_name(&SETS, NAME)), rules: Some(rules.clone()) };
    apply(client, namespace, &role).await;
    apply(client, namespace, &binding(home, NAME)).await;
    await_rights(client, Some(namespace), &user(home, NAME), &rules, &candidate_rights()).await;
}

/// Waits until the API server knows that `user` has the rights `granted`, and of those `withheld` no others; in a namespace, or in
/// the cluster.
pub(super) async fn await_rights(
    client: &Client,
    namespace: Option<&str>,
    user: &str,
    granted: &[PolicyRule],
    withheld: &[PolicyRule],
) {
    let wanted: BTreeSet<Right> = granted.iter().flat_map(rights).collect();
    eventually("the rights are known", async || {
        for right in wanted.iter().cloned().chain(withheld.iter().flat_map(rights)) {
            let is_granted = is_granted(client, namespace, user, &right).await;
            if is_granted != wanted.contains(&right) {
                return Err(format!("{right:?} is granted: {is_granted}"));
            }
        }
        Ok(())
    })
    .await;
}

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    /// With its subresource.
    resource: String,
    /// The only object; none: all.
    name: Option<String>,
    verb: String,
}

fn rights(rule: &PolicyRule) -> Vec<Right> {
    let all = |names: &Option<Vec<String>>| names.clone().unwrap_or_default();
    let names = match &rule.resource_names {
        Some(names) => names.iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    let mut rights = Vec::new();
    for group in all(&rule.api_groups) {
        for resource in all(&rule.resources) {
            for name in &names {
                let right = |verb: &String| Right {
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                    verb: verb.clone(),
                };
                rights.extend(rule.verbs.iter().map(right));
            }
        }
    }
    rights
}

async fn is_granted(client: &Client, namespace: Option<&str>, user: &str, right: &Right) -> bool {
    let Right { group, resource, name, verb } = right.clone();
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
        None => (resource, None),
    };
    let attributes = ResourceAttributes {
        namespace: namespace.map(ToOwned::to_owned),
        group: Some(group),
        resource: Some(resource),
        subresource,
        name,
        verb: Some(verb),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.into()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let reviewed = reviews.create(&PostParams::default(), &review).await.must("review a right");
    reviewed.status.is_some_and(|status| status.allowed)
}

/// The account's name in the API server's eyes.
pub(super) fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Gives the account `name` of the namespace `home` the role that all accounts share.
fn binding(home: &str, name: &str) -> RoleBinding {
    RoleBinding {
        metadata: named(name),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "Role".into(),
            name: role_name(&SETS, NAME),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: name.into(),
            namespace: Some(home.into()),
            ..Subject::default()
        }]),
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
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
    let name = object.meta().name.as_deref().unwrap_or_default();
    api.patch(name, &params, &Patch::Apply(object)).await.must(&format!("apply {} {name}", K::kind(&())));
}
