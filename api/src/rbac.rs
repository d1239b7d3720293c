//! The rights that the controller needs, each with its reason: the chart renders them, and the test bed grants exactly
//! these and nothing else. The webhook needs none, since it calls nobody.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::constants::{FIELD_MANAGER, GROUP, PLURAL};

/// The controller's rights in every namespace that it serves.
#[must_use]
pub fn controller() -> Vec<PolicyRule> {
    vec![
        // list and watch fill the cache; patch adds and removes the cleanup finalizer; get looks at the conditions of others on an
        // object that its schema no longer accepts, whose status cannot be applied.
        rule(GROUP, PLURAL, &["get", "list", "watch", "patch"]),
        // The report: status is written by server-side apply.
        rule(GROUP, &format!("{PLURAL}/status"), &["patch"]),
        // list and watch fill the cache with children; get looks at a map of a child's name that the cache cannot show;
        // create, patch (server-side apply) and delete are the child's life; update adopts one whose owner is dead.
        rule("", "configmaps", &["get", "list", "watch", "create", "update", "patch", "delete"]),
        // Transitions: create the event, and patch it when it repeats.
        rule("events.k8s.io", "events", &["create", "patch"]),
    ]
}

/// The further rights of a controller that elects a leader, in the namespace of its Lease alone.
#[must_use]
pub fn leader_election() -> Vec<PolicyRule> {
    const GROUP: &str = "coordination.k8s.io";
    vec![
        // create makes the Lease where there is none yet; this right cannot be limited to a name.
        rule(GROUP, "leases", &["create"]),
        // get tells who leads; list and watch tell at once when the lead is given up or taken away; update takes the lead, renews
        // it and gives it up. Of no other Lease: a list and a watch of one name count as of this name.
        PolicyRule {
            resource_names: Some(vec![FIELD_MANAGER.into()]),
            ..rule(GROUP, "leases", &["get", "list", "watch", "update"])
        },
    ]
}

/// The URL of the metrics in the API server's eyes: what those who read them must be allowed to get.
pub const METRICS_URL: &str = "/metrics";

/// The further rights of a controller that asks who reads its metrics, in the whole cluster.
#[must_use]
pub fn metrics_auth() -> Vec<PolicyRule> {
    vec![
        // create asks whose token it is.
        rule("authentication.k8s.io", "tokenreviews", &["create"]),
        // create asks what its owner may do.
        rule("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ]
}

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

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.into()]),
        resources: Some(vec![resource.into()]),
        verbs: verbs.iter().map(ToString::to_string).collect(),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_by_wildcard() {
        let rules = [controller(), leader_election(), metrics_auth(), metrics_reader()].concat();
        let words = rules.iter().flat_map(|rule| {
            rule.verbs.iter().chain(rule.resources.iter().flatten()).chain(rule.api_groups.iter().flatten())
        });
        assert!(words.clone().count() > 10 && words.clone().all(|word| !word.contains('*')));
    }
}
