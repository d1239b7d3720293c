//! The table itself.

use super::{Kind, Level, Rule, image, limits, names, spec};

/// The table. Order is the order of messages.
pub const RULES: &[Rule] = &[
    Rule {
        id: "name-label",
        field: "metadata.name",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "The name is a DNS label of at most 63 characters.",
        why: "It becomes a label value of the child and part of its name.",
        broken_by: r#""my.service""#,
        check: names::name_is_a_label,
    },
    Rule {
        id: "spec-object",
        field: "spec",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "spec is an object.",
        why: "Every field stands below it.",
        broken_by: r#""nginx""#,
        check: spec::spec_is_an_object,
    },
    Rule {
        id: "image-required",
        field: "spec.image",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "An image is given, and it is not blank.",
        why: "There is nothing to run without one, and no sensible default.",
        broken_by: r#""  ""#,
        check: image::image_is_present,
    },
    Rule {
        id: "image-reference",
        field: "spec.image",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "The image is a valid reference of at most 1024 bytes: host[:port]/path[:tag][@digest].",
        why: "A reference that no registry understands fails much later, far from whoever wrote it.",
        broken_by: r#""nginx:1.27:oops""#,
        check: image::image_is_a_reference,
    },
    Rule {
        id: "replicas-range",
        field: "spec.replicas",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "replicas is a whole number from 0 to 2147483647.",
        why: "It counts instances, and clients read it as a 32-bit number.",
        broken_by: "-1",
        check: spec::replicas_are_in_range,
    },
    Rule {
        id: "tier-label",
        field: "spec.tier",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "tier is a DNS label of at most 63 characters.",
        why: "Tiers become label values and parts of names.",
        broken_by: r#""Dev_1""#,
        check: spec::tier_is_a_label,
    },
    Rule {
        id: "depends-on-list",
        field: "spec.dependsOn",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "dependsOn is a list of at most 32 entries {name}, each a valid and different WebService name.",
        why: "Each entry is looked up by name in the same namespace.",
        broken_by: r#"["search"]"#,
        check: spec::dependencies_are_names,
    },
    Rule {
        id: "depends-on-itself",
        field: "spec.dependsOn",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "A WebService does not depend on itself.",
        why: "It would wait for ever.",
        broken_by: r#"[{"name": "checkout"}]"#,
        check: spec::dependencies_are_others,
    },
    Rule {
        id: "suspend-boolean",
        field: "spec.suspend",
        kind: Kind::Structural,
        level: Level::Enforce,
        demands: "suspend is true or false.",
        why: "A string such as \"false\" would be read as something it does not say.",
        broken_by: r#""false""#,
        check: spec::suspend_is_a_boolean,
    },
    Rule {
        id: "image-registry",
        field: "spec.image",
        kind: Kind::Policy,
        level: Level::Enforce,
        demands: "The image comes from one of the policy's allowedRegistries.",
        why: "What runs should come from where somebody looks after it.",
        broken_by: r#""quay.io/team/app:1.0""#,
        check: limits::image_is_from_an_allowed_registry,
    },
    Rule {
        id: "tier-allowed",
        field: "spec.tier",
        kind: Kind::Policy,
        level: Level::Enforce,
        demands: "tier is one of the policy's allowedTiers.",
        why: "A tier that nobody knows has no quota, no alerts and no owner.",
        broken_by: r#""production""#,
        check: limits::tier_is_allowed,
    },
    REPLICAS_MAXIMUM,
    Rule {
        id: "image-pinned",
        field: "spec.image",
        kind: Kind::Policy,
        level: Level::Warn,
        demands: "The image has a digest, or a tag other than latest.",
        why: "A floating tag may run different software on every start.",
        broken_by: r#""nginx""#,
        check: image::image_is_pinned,
    },
    Rule {
        id: "replicas-zero",
        field: "spec.replicas",
        kind: Kind::Policy,
        level: Level::Warn,
        demands: "replicas is not 0.",
        why: "Nothing runs then; often it is left over from an experiment.",
        broken_by: "0",
        check: spec::replicas_are_not_zero,
    },
    Rule {
        id: "unknown-field",
        field: "spec",
        kind: Kind::Policy,
        level: Level::Warn,
        demands: "spec holds only fields that this version knows.",
        why: "The API server drops unknown fields without a word; mostly they are typing errors.",
        broken_by: r#"{"image": "nginx:1.27", "replica": 3}"#,
        check: spec::fields_are_known,
    },
];

/// The one rule that is also asked about writes to the scale subresource.
pub(super) const REPLICAS_MAXIMUM: Rule = Rule {
    id: "replicas-maximum",
    field: "spec.replicas",
    kind: Kind::Policy,
    level: Level::Enforce,
    demands: "replicas is at most the policy's maxReplicas, overall and in the tier; `kubectl scale`, which shows no tier, overall alone.",
    why: "A slip of the finger should not take the room of everybody else.",
    broken_by: "11",
    check: limits::replicas_are_within_the_maximum,
};

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn every_rule_is_broken_by_its_own_example() {
        for rule in RULES {
            let found = example::findings(rule);
            assert!(found.iter().any(|finding| finding.rule == rule.id), "{}: {found:?}", rule.id);
        }
    }

    #[test]
    fn rule_ids_are_unique() {
        let mut ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
    }
}
