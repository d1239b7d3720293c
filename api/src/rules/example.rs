//! One example of everything: an object, a policy, and what each rule says when its own value stands in the object. The
//! reference page and the tests are made of it, so neither can say what the rules do not.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Policy, PolicyError, Rule, Violation};
use crate::draft::Draft;

/// A policy with everything in it that one can have.
pub const POLICY: &str = "\
allowedRegistries:            # host[:port][/path-prefix]; docker.io is what a name without a host means
- docker.io
- registry.example.com:5000/team
allowedTiers: [dev, staging, prod]
maxReplicas:
  overall: 50
  tiers: {dev: 10}
levels:                       # off, warn or enforce; those left out are as in the table
  image-registry: enforce
  image-pinned: warn
  unknown-field: off
";

/// The policy under which examples are checked: [`POLICY`], with each rule at its own level.
///
/// # Errors
/// None in practice: a test runs it.
pub fn policy() -> Result<Policy, PolicyError> {
    let (limits, _levels) = POLICY.split_once("levels:").unwrap_or((POLICY, ""));
    Policy::parse(limits.as_bytes())
}

/// A valid object in which the rule's field has the value that breaks it.
#[must_use]
pub fn object(rule: &Rule) -> Value {
    let mut object = json!({
        "metadata": {"name": "checkout"},
        "spec": {"image": "nginx:1.27", "replicas": 3, "tier": "dev"},
    });
    let value = serde_json::from_str(rule.broken_by).unwrap_or_default();
    match rule.field.split_once('.') {
        Some((parent, member)) => object[parent][member] = value,
        None => object[rule.field] = value,
    }
    object
}

/// What all rules find in the rule's own example.
#[must_use]
pub fn findings(rule: &Rule) -> Vec<Violation> {
    let (object, policy) = (object(rule), policy().unwrap_or_default());
    let report = Draft::deserialize(&object).map(|draft| policy.check(&draft)).unwrap_or_default();
    report.violations.into_iter().chain(report.warnings).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Report;
    use super::*;

    #[test]
    fn both_forms_of_the_policy_are_read_and_accept_a_plain_object() {
        let plain = json!({"metadata": {"name": "checkout"}, "spec": {"image": "nginx:1.27", "replicas": 3, "tier": "dev"}});
        for policy in [Policy::parse(POLICY.as_bytes()).unwrap(), policy().unwrap()] {
            assert_eq!(policy.check(&Draft::deserialize(&plain).unwrap()), Report::default());
        }
    }
}
