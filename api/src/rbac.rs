//! The rights that the processes and their users need, each verb with its reason: the chart renders them, and the test bed grants
//! exactly these and nothing else. The webhook needs none, since it calls nobody.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::constants::{FIELD_MANAGER, GROUP, PLURAL};

/// The controller's rights in every namespace that it serves.
#[must_use]
pub fn controller() -> Vec<PolicyRule> {
    rules(&reconciling())
}

/// The further rights of a controller that elects a leader, in the namespace of its Lease alone.
#[must_use]
pub fn leader_election() -> Vec<PolicyRule> {
    rules(&electing())
}

/// The further rights of a controller that asks who reads its metrics, in the whole cluster.
#[must_use]
pub fn metrics_auth() -> Vec<PolicyRule> {
    rules(&asking())
}

/// The URL of the metrics in the API server's eyes: what those who read them must be allowed to get.
pub const METRICS_URL: &str = "/metrics";

/// The right of those who read the metrics of such a controller: of Prometheus, in the whole cluster.
#[must_use]
pub fn metrics_reader() -> Vec<PolicyRule> {
    vec![PolicyRule {
        // get reads them; of no other URL.
        non_resource_urls: Some(vec![METRICS_URL.into()]),
        verbs: vec!["get".into()],
        ..PolicyRule::default()
    }]
}

/// Verbs on one resource.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The API group, empty for the core group.
    pub group: &'static str,
    /// The resource in the plural, with its subresource.
    pub resource: &'static str,
    /// The names of the only objects that the verbs are granted on; empty: all.
    pub names: Vec<String>,
    /// The verbs, and what each is for.
    pub verbs: &'static [(&'static str, &'static str)],
}

/// Rights that are granted together, to one account in one scope.
#[derive(Clone, Debug)]
pub struct RightSet {
    /// Its name: that of the chart's file.
    pub name: &'static str,
    /// Who has them, and where.
    pub holder: &'static str,
    /// What is granted.
    pub grants: Vec<Grant>,
}

/// The names of the chart's own objects that rights are limited to.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The mutating and the validating configuration, which share it.
    pub webhook_configuration: String,
    /// The controller's Deployment.
    pub deployment: String,
    /// The Secret of the CA.
    pub ca_secret: String,
    /// The Secret that the webhook serves from.
    pub tls_secret: String,
}

/// Every set of rights that the chart grants.
#[must_use]
pub fn all(names: &Names) -> Vec<RightSet> {
    let secrets = || vec![names.ca_secret.clone(), names.tls_secret.clone()];
    let set = |name, holder, grants| RightSet { name, holder, grants };
    vec![
        set("controller", "the controller, in every namespace that it serves", reconciling()),
        set("leader-election", "the controller, in its own namespace", electing()),
        set(
            "certificates",
            "the controller, in its own namespace; self-managed mode only",
            certificates(secrets()),
        ),
        set("registration", "the controller, in the cluster", registration(names, WATCHED)),
        set(
            "trust",
            "the controller, in the cluster; not where cert-manager or the chart writes it",
            registration(names, INJECTED),
        ),
        set(
            "metrics-auth",
            "the controller, in the cluster; only where it asks who reads its metrics",
            asking(),
        ),
        set("uninstall", "the uninstall step, in the operator's namespace", stopping(names)),
        set(
            "uninstall-certificates",
            "the uninstall step, in the operator's namespace; self-managed mode only",
            vec![Grant {
                names: secrets(),
                ..grant("", "secrets", &[("delete", "what the controller made, Helm does not know")])
            }],
        ),
        set("uninstall-registration", "the uninstall step, in the cluster", registration(names, REMOVED)),
        set("release", "the uninstall step, in every namespace that was served", releasing()),
        set(
            "test",
            "the controller (/readyz asks whether the webhook is called) and `helm test`, in one namespace",
            vec![grant(GROUP, PLURAL, &[("create", "in a dry run: nothing is stored")])],
        ),
        set("view", "everybody who may view a namespace (aggregated)", viewing()),
        set("edit", "everybody who may edit or administer a namespace (aggregated)", editing()),
    ]
}

const ALL: Vec<String> = Vec::new();
const ADMISSION: &str = "admissionregistration.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const STATUS: &str = "webservices/status";
const SCALE: &str = "webservices/scale";

fn reconciling() -> Vec<Grant> {
    vec![
        grant(
            GROUP,
            PLURAL,
            &[
                ("get", "the conditions of others on an object that its schema no longer accepts"),
                ("list", "fills the cache"),
                ("watch", "keeps the cache"),
                ("patch", "adds and removes the cleanup finalizer"),
            ],
        ),
        grant(GROUP, STATUS, &[("patch", "the report: server-side apply")]),
        grant(
            "",
            "configmaps",
            &[
                ("get", "a map of a child's name that the cache cannot show"),
                ("list", "fills the cache with children"),
                ("watch", "keeps the cache"),
                ("create", "a child"),
                ("update", "adopts a child whose owner is dead"),
                ("patch", "puts a child right: server-side apply"),
                ("delete", "cleanup"),
            ],
        ),
        grant(
            "events.k8s.io",
            "events",
            &[("create", "tells a transition"), ("patch", "counts one that repeats")],
        ),
    ]
}

fn electing() -> Vec<Grant> {
    // A list and a watch of one name count as of this name.
    let lease = &[
        ("get", "who leads"),
        ("list", "sees at once that the lead is given up or taken away"),
        ("watch", "the same"),
        ("update", "takes the lead, renews it, gives it up"),
    ];
    vec![
        grant(COORDINATION, "leases", &[("create", "where there is none yet; cannot be limited to a name")]),
        Grant { names: vec![FIELD_MANAGER.into()], ..grant(COORDINATION, "leases", lease) },
    ]
}

fn certificates(secrets: Vec<String>) -> Vec<Grant> {
    let own = &[("get", "CA and certificate, from which all else is derived"), ("update", "renews them")];
    vec![
        grant("", "secrets", &[("create", "where there are none yet; cannot be limited to a name")]),
        Grant { names: secrets, ..grant("", "secrets", own) },
    ]
}

type Verbs = &'static [(&'static str, &'static str)];

const WATCHED: Verbs = &[("get", "/readyz tells whether the webhook is registered")];
const INJECTED: Verbs = &[("patch", "writes the caBundle")];
const REMOVED: Verbs = &[("delete", "first of all: without a webhook nothing can block the rest")];

fn registration(names: &Names, verbs: Verbs) -> Vec<Grant> {
    let kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let one =
        |kind| Grant { names: vec![names.webhook_configuration.clone()], ..grant(ADMISSION, kind, verbs) };
    kinds.map(one).into()
}

fn asking() -> Vec<Grant> {
    vec![
        grant("authentication.k8s.io", "tokenreviews", &[("create", "whose token it is")]),
        grant("authorization.k8s.io", "subjectaccessreviews", &[("create", "what its owner may do")]),
    ]
}

fn stopping(names: &Names) -> Vec<Grant> {
    let lease = &[("get", "waits until nobody leads"), ("delete", "Helm does not know it")];
    vec![
        Grant {
            names: vec![names.deployment.clone()],
            ..grant("apps", "deployments/scale", &[("patch", "stops the controller")])
        },
        Grant { names: vec![FIELD_MANAGER.into()], ..grant(COORDINATION, "leases", lease) },
    ]
}

fn releasing() -> Vec<Grant> {
    vec![grant(GROUP, PLURAL, &[("list", "finds who carries the finalizer"), ("patch", "removes it")])]
}

fn viewing() -> Vec<Grant> {
    let read = &[("get", "look"), ("list", "look"), ("watch", "wait")];
    vec![
        grant(GROUP, PLURAL, read),
        grant(GROUP, STATUS, &[("get", "look")]),
        grant(GROUP, SCALE, &[("get", "look")]),
    ]
}

fn editing() -> Vec<Grant> {
    vec![
        grant(
            GROUP,
            PLURAL,
            &[
                ("create", "kubectl create, apply"),
                ("update", "kubectl replace, edit"),
                ("patch", "kubectl apply, patch"),
                ("delete", "kubectl delete, one by one with --all, too"),
            ],
        ),
        grant(GROUP, SCALE, &[("update", "kubectl scale --current-replicas"), ("patch", "kubectl scale")]),
    ]
}

fn grant(group: &'static str, resource: &'static str, verbs: Verbs) -> Grant {
    Grant { group, resource, names: ALL, verbs }
}

fn rules(grants: &[Grant]) -> Vec<PolicyRule> {
    grants.iter().map(PolicyRule::from).collect()
}

impl From<&Grant> for PolicyRule {
    fn from(grant: &Grant) -> Self {
        Self {
            api_groups: Some(vec![grant.group.into()]),
            resources: Some(vec![grant.resource.into()]),
            resource_names: Some(grant.names.clone()).filter(|names| !names.is_empty()),
            verbs: grant.verbs.iter().map(|(verb, _)| (*verb).into()).collect(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> Vec<RightSet> {
        let [webhook_configuration, deployment, ca_secret, tls_secret] =
            ["a", "b", "c", "d"].map(ToOwned::to_owned);
        all(&Names { webhook_configuration, deployment, ca_secret, tls_secret })
    }

    #[test]
    fn nothing_is_granted_by_wildcard() {
        let grants = sets().into_iter().flat_map(|set| set.grants);
        let words = grants.flat_map(|grant| {
            let verbs = grant.verbs.iter().map(|(verb, _)| *verb);
            verbs.chain([grant.group, grant.resource]).collect::<Vec<_>>()
        });
        let words: Vec<_> = words.collect();
        assert!(words.len() > 10 && words.iter().all(|word| !word.contains('*')));
        assert!(!format!("{:?}", metrics_reader()).contains('*'));
    }

    #[test]
    fn secrets_are_read_by_name_alone() {
        for grant in sets().iter().flat_map(|set| &set.grants).filter(|grant| grant.resource == "secrets") {
            let limited = grant.names == ["c", "d"];
            assert!(limited || grant.verbs.iter().all(|(verb, _)| *verb == "create"), "{grant:?}");
        }
    }

    #[test]
    fn every_verb_has_a_reason() {
        let sets = sets();
        let mut verbs = sets.iter().flat_map(|set| &set.grants).flat_map(|grant| grant.verbs);
        assert!(verbs.all(|(_, reason)| !reason.is_empty()));
    }
}
