//! The rights that are granted beside those that are used, as the API server's audit log tells.
//!
//! The API server notes beside each call which role has let it through, and the bed names each role after the sets of rights that
//! it holds. So it is known of each right whether somebody who has it from its set has used it.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use webservice_api::rbac::{Grant, RightSet};

use super::audit::{Call, Calls};
use super::must::Must;
use super::namespace::TestNamespace;

/// Why the API server has let a call through, in words.
const REASON: &str = "authorization.k8s.io/reason";
/// Whether it has: `allow` or `forbid`. A call that was let through may still be refused, by a policy or a quota.
const DECISION: &str = "authorization.k8s.io/decision";

/// Between the sets' names in the name of a role.
const AND: char = '+';
/// Ends the sets' names in the name of a role.
const END: char = ':';

/// A ConfigMap that nobody makes: who asks for it says that the controllers of its namespace lack rights on purpose.
const MISSING_RIGHTS: &str = "rights-are-missing-on-purpose";

/// The name of the role that holds these sets for `whom`.
pub(super) fn role_name(sets: &[&str], whom: &str) -> String {
    format!("{}{END}{whom}", sets.join(&AND.to_string()))
}

/// Says in the audit log that accounts of this namespace lack rights on purpose.
pub(super) async fn announce_missing_rights(client: &Client, namespace: &str) {
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    config_maps.get_opt(MISSING_RIGHTS).await.must("announce missing rights");
}

impl TestNamespace {
    /// Says that a controller of this namespace lacks rights on purpose: what it is forbidden is no mistake.
    pub async fn announce_missing_rights(&self) {
        announce_missing_rights(self.client(), self.name()).await;
    }
}

/// What distinguishes the rights that are granted from those that are used.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    unused: BTreeSet<String>,
    forbidden: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

impl Differences {
    /// Between what these sets grant and what the calls have used.
    ///
    /// Accounts are service accounts of namespaces of the bed. People with other credentials need no rights from us.
    #[must_use]
    pub fn between(granted: &[RightSet], calls: &Calls) -> Self {
        let calls = calls.all();
        let told = |call: &Call| format!("{}: {call} in {:?}", call.user, call.namespace);
        Self {
            unused: unused(granted, calls),
            forbidden: forbidden(calls).map(told).collect(),
            secrets: secrets_elsewhere(calls).map(told).collect(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Display for Differences {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        list(f, "granted, but used by nobody:", &self.unused)?;
        list(f, "used, but not granted:", &self.forbidden)?;
        list(f, "Secrets outside of the caller's own namespace:", &self.secrets)
    }
}

fn list(f: &mut Formatter<'_>, title: &str, lines: &BTreeSet<String>) -> fmt::Result {
    if !lines.is_empty() {
        writeln!(f, "{title}")?;
    }
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
}

fn unused(granted: &[RightSet], calls: &[Call]) -> BTreeSet<String> {
    let used: BTreeSet<Use<'_>> = calls.iter().filter(|call| call.code < 400).flat_map(uses).collect();
    let mut unused = BTreeSet::new();
    for RightSet { name: set, grants, .. } in granted {
        for Grant { group, resource, verbs, .. } in grants {
            let is_unused = |verb: &&str| !used.contains(&Use { set, group, resource, verb });
            let verbs = verbs.iter().map(|(verb, _)| *verb).filter(is_unused);
            unused.extend(verbs.map(|verb| format!("{set}: {verb} {resource}")));
        }
    }
    unused
}

/// Without what the same account is allowed at other times: an API server that starts forbids everything until it has read the roles.
fn forbidden(calls: &[Call]) -> impl Iterator<Item = &Call> {
    let announced: BTreeSet<_> =
        calls.iter().filter(|call| call.name == MISSING_RIGHTS).map(|call| &*call.namespace).collect();
    let allowed: BTreeSet<_> = calls.iter().filter(|call| call.code < 400).map(asked).collect();
    calls
        .iter()
        .filter(|call| is_forbidden(call))
        .filter(move |call| home(call).is_some_and(|home| !announced.contains(home)))
        .filter(move |call| !allowed.contains(&asked(call)))
}

/// Who wanted to do what.
fn asked(call: &Call) -> [&str; 6] {
    let Call { user, verb, group, resource, namespace, name, .. } = call;
    // A right to create knows no name, and a second try may have another.
    [user, verb, group, resource, namespace, if verb == "create" { "" } else { name }]
}

fn secrets_elsewhere(calls: &[Call]) -> impl Iterator<Item = &Call> {
    let secrets = calls.iter().filter(|call| call.resource == "secrets");
    secrets.filter(|call| home(call).is_some_and(|home| home != call.namespace))
}

/// A right as a set grants it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Use<'c> {
    set: &'c str,
    group: &'c str,
    resource: &'c str,
    verb: &'c str,
}

/// The right that a call has used, once for each set of the role that let it through.
fn uses(call: &Call) -> impl Iterator<Item = Use<'_>> {
    let Call { group, resource, verb, .. } = call;
    role(call).into_iter().flat_map(|role| role.split(AND)).map(|set| Use { set, group, resource, verb })
}

/// The sets of the role that let a call through. The reason reads `RBAC: allowed by RoleBinding "…" of Role "SETS:WHOM" to …`.
fn role(call: &Call) -> Option<&str> {
    let (_, role) = call.annotations.get(REASON)?.split_once("Role \"")?;
    let (sets, _) = role.split_once(END)?;
    Some(sets)
}

fn is_forbidden(call: &Call) -> bool {
    call.code == 403 && call.annotations.get(DECISION).is_some_and(|decision| decision == "forbid")
}

/// The namespace of the service account that has made a call, but for the accounts of Kubernetes itself.
fn home(call: &Call) -> Option<&str> {
    let (namespace, _) = call.user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (namespace != "kube-system").then_some(namespace)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use webservice_api::rbac::{Names, all};

    use super::*;

    const CONTROLLER: &str = "system:serviceaccount:here:webservice-controller";

    fn call(verb: &str, resource: &str, annotations: [(&str, &str); 1]) -> Call {
        Call {
            verb: verb.into(),
            group: String::new(),
            resource: resource.into(),
            namespace: "here".into(),
            name: "any".into(),
            code: 200,
            user: CONTROLLER.into(),
            agent: String::new(),
            received: Timestamp::UNIX_EPOCH,
            annotations: annotations.map(|(name, value)| (name.into(), value.into())).into(),
            answered: Timestamp::UNIX_EPOCH,
        }
    }

    fn allowed(verb: &str, resource: &str, role: &str) -> Call {
        let reason = format!(
            "RBAC: allowed by RoleBinding \"binding/here\" of Role \"{role}\" to ServiceAccount \"webservice-controller/here\""
        );
        call(verb, resource, [(REASON, &reason)])
    }

    fn forbidden() -> Call {
        Call { code: 403, ..call("delete", "pods", [(DECISION, "forbid")]) }
    }

    /// A set that grants `get` and `update` of Secrets, and one that grants their deletion.
    fn sets() -> Vec<RightSet> {
        let mut sets = all(&Names::default());
        sets.retain(|set| ["certificates", "uninstall-certificates"].contains(&set.name));
        sets
    }

    fn differences(calls: &[Call]) -> Differences {
        Differences::between(&sets(), &calls.to_vec().into())
    }

    fn all_used() -> Vec<Call> {
        let role = role_name(&["certificates", "trust"], "somebody");
        let mut calls = ["create", "get", "update"].map(|verb| allowed(verb, "secrets", &role)).to_vec();
        calls.push(allowed("delete", "secrets", "uninstall-certificates:somebody"));
        calls
    }

    #[test]
    fn rights_that_are_all_used_differ_in_nothing() {
        assert_eq!(differences(&all_used()).to_string(), "");
        assert!(differences(&all_used()).is_empty());
    }

    #[test]
    fn a_verb_that_was_used_in_vain_or_by_way_of_another_set_is_unused() {
        let mut calls = all_used();
        calls[1].code = 404;
        calls[3] = allowed("delete", "secrets", "certificates:somebody");
        let expected = "granted, but used by nobody:\n  certificates: get secrets\n  uninstall-certificates: delete secrets\n";
        assert_eq!(differences(&calls).to_string(), expected);
    }

    #[test]
    fn what_an_account_was_forbidden_is_found_unless_its_namespace_says_that_it_is_meant() {
        let mut calls = [all_used(), vec![forbidden()]].concat();
        let expected = format!("used, but not granted:\n  {CONTROLLER}: delete pods any (403) in \"here\"\n");
        assert_eq!(differences(&calls).to_string(), expected);
        calls.push(Call { name: MISSING_RIGHTS.into(), ..call("get", "configmaps", [("", "")]) });
        assert!(differences(&calls).is_empty());
    }

    #[test]
    fn what_is_forbidden_once_and_allowed_at_other_times_is_no_missing_right() {
        let later = Call { annotations: [].into(), code: 200, ..forbidden() };
        assert!(differences(&[all_used(), vec![forbidden(), later.clone()]].concat()).is_empty());
        let another = Call { name: "another".into(), ..later };
        assert!(!differences(&[all_used(), vec![forbidden(), another]].concat()).is_empty());
    }

    #[test]
    fn what_a_policy_or_a_quota_refuses_is_not_forbidden() {
        let refused = Call { code: 403, ..call("create", "configmaps", [(DECISION, "allow")]) };
        assert!(differences(&[all_used(), vec![refused]].concat()).is_empty());
    }

    #[test]
    fn a_secret_outside_of_the_callers_own_namespace_is_found_and_so_are_all_of_them() {
        for place in ["there", ""] {
            let read = Call { namespace: place.into(), ..call("list", "secrets", [("", "")]) };
            let expected = format!(
                "Secrets outside of the caller's own namespace:\n  {CONTROLLER}: list secrets any in {place:?}\n"
            );
            assert_eq!(differences(&[all_used(), vec![read]].concat()).to_string(), expected);
        }
    }

    #[test]
    fn kubernetes_itself_may_read_secrets_where_it_likes() {
        let user = "system:serviceaccount:kube-system:namespace-controller".into();
        let swept = Call { user, ..call("list", "secrets", [("", "")]) };
        assert!(differences(&[all_used(), vec![swept]].concat()).is_empty());
    }
}
