//! The rule table: one line per rule, small functions behind it.
//!
//! The same table serves the webhook, the controller, the plugin and the reference page. A *structural* rule says what an
//! object needs to be reconciled at all: every enforcer checks it. A *policy* rule is a wish of whoever runs the cluster:
//! admission and the plugin speak of it, the controller does not, so that a rule tightened later never breaks an object
//! that was accepted before.

mod image;
mod names;
mod spec;

use crate::draft::Draft;

/// What a rule is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Without it the object cannot be reconciled.
    Structural,
    /// Advice or restriction, for admission and the plugin only.
    Policy,
}

/// What happens when a rule is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// The object is refused.
    Enforce,
    /// The object is accepted, and the person is told.
    Warn,
}

/// The machine-readable cause of a refusal, as `metav1.StatusCause` names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// A required value is missing.
    Required,
    /// The value has the wrong form or type.
    Invalid,
    /// A value that must be unique stands twice.
    Duplicate,
    /// Too many entries or too long.
    TooLong,
}

impl Cause {
    /// The word in a Status object.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

/// One line of the table.
pub struct Rule {
    /// Stable name of the rule, in logs, metrics and the reference.
    pub id: &'static str,
    /// The field it speaks about.
    pub field: &'static str,
    /// Structural or policy.
    pub kind: Kind,
    /// Refuse or warn.
    pub level: Level,
    /// What it demands, one sentence.
    pub demands: &'static str,
    /// Why, one sentence.
    pub why: &'static str,
    /// A value that breaks it, as JSON of the field.
    pub broken_by: &'static str,
    check: fn(&Draft<'_>, &mut Findings),
}

/// A broken rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// [`Rule::id`].
    pub rule: &'static str,
    /// Path of the offending value, such as `spec.dependsOn[2].name`.
    pub field: String,
    /// What is wrong and what to write instead.
    pub message: String,
    /// The machine-readable cause.
    pub cause: Cause,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// What the rules found in one object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Broken rules of level [`Level::Enforce`], in the order of the table.
    pub violations: Vec<Violation>,
    /// Broken rules of level [`Level::Warn`].
    pub warnings: Vec<Violation>,
}

/// All violations in one sentence for a person.
#[must_use]
pub fn sentence(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Checks every rule of the table.
#[must_use]
pub fn check(draft: &Draft<'_>) -> Report {
    run(draft, |_| true)
}

/// Checks the structural rules alone: whether the object can be reconciled.
#[must_use]
pub fn check_structure(draft: &Draft<'_>) -> Vec<Violation> {
    run(draft, |rule| rule.kind == Kind::Structural).violations
}

/// Checks an update. A violation that the old object had already, in a field that the update leaves alone, becomes a
/// warning: whoever changes one field is not made to mend another (ratcheting).
#[must_use]
pub fn check_update(old: &Draft<'_>, new: &Draft<'_>) -> Report {
    let mut report = check(new);
    if report.violations.is_empty() {
        return report;
    }
    let before = check(old).violations;
    let (inherited, fresh) =
        report.violations.into_iter().partition(|violation: &Violation| before.contains(violation));
    report.violations = fresh;
    report.warnings.extend(inherited.into_iter().map(|violation: Violation| Violation {
        message: format!(
            "{} (stored before this rule; mend it when you next change the field)",
            violation.message
        ),
        ..violation
    }));
    report
}

fn run(draft: &Draft<'_>, wanted: impl Fn(&Rule) -> bool) -> Report {
    let mut report = Report::default();
    for rule in RULES.iter().filter(|rule| wanted(rule)) {
        let into = match rule.level {
            Level::Enforce => &mut report.violations,
            Level::Warn => &mut report.warnings,
        };
        (rule.check)(draft, &mut Findings { rule, into });
    }
    report
}

/// Where a rule's function puts what it finds.
struct Findings<'r> {
    rule: &'static Rule,
    into: &'r mut Vec<Violation>,
}

impl Findings<'_> {
    /// The rule's own field breaks it.
    fn add(&mut self, cause: Cause, message: impl Into<String>) {
        self.add_at(self.rule.field, cause, message);
    }

    /// A value below the rule's field breaks it.
    fn add_at(&mut self, field: impl Into<String>, cause: Cause, message: impl Into<String>) {
        self.into.push(Violation { rule: self.rule.id, field: field.into(), message: message.into(), cause });
    }
}

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
        broken_by: r#"[{"name": "<its own name>"}]"#,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(json: &str) -> Report {
        check(&serde_json::from_str(json).unwrap())
    }

    /// A valid object in which the rule's field is replaced by the value that is said to break it.
    fn broken(rule: &Rule) -> String {
        let mut object = serde_json::json!({
            "metadata": {"name": "checkout"},
            "spec": {"image": "nginx:1.27", "replicas": 3, "tier": "dev"}
        });
        let value = rule.broken_by.replace("<its own name>", "checkout");
        let pointer = format!("/{}", rule.field.replace('.', "/"));
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[member] = serde_json::from_str(&value).unwrap();
        object.to_string()
    }

    #[test]
    fn every_rule_is_broken_by_its_own_example() {
        for rule in RULES {
            let found = report(&broken(rule));
            let side = if rule.level == Level::Enforce { &found.violations } else { &found.warnings };
            assert!(side.iter().any(|violation| violation.rule == rule.id), "{}: {found:?}", rule.id);
        }
    }

    #[test]
    fn rule_ids_are_unique() {
        let mut ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
    }

    #[test]
    fn all_violations_are_found_at_once() {
        let found =
            report(r#"{"metadata": {"name": "A"}, "spec": {"replicas": -1, "tier": "X", "suspend": 1}}"#);
        let fields: Vec<_> = found.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["metadata.name", "spec.image", "spec.replicas", "spec.tier", "spec.suspend"]);
    }

    #[test]
    fn a_plain_object_breaks_nothing() {
        assert_eq!(
            report(r#"{"metadata": {"name": "checkout"}, "spec": {"image": "nginx:1.27"}}"#),
            Report::default()
        );
    }

    #[test]
    fn an_old_violation_in_an_untouched_field_is_a_warning() {
        let old =
            serde_json::from_str(r#"{"spec": {"image": "nginx:1.27", "tier": "Old_Tier", "replicas": 1}}"#)
                .unwrap();
        let new =
            serde_json::from_str(r#"{"spec": {"image": "nginx:1.27", "tier": "Old_Tier", "replicas": 2}}"#)
                .unwrap();
        let report = check_update(&old, &new);
        assert_eq!(report.violations, []);
        assert_eq!(report.warnings[0].rule, "tier-label");
    }

    #[test]
    fn a_new_violation_is_refused_even_where_the_old_value_was_bad_too() {
        let old = serde_json::from_str(r#"{"spec": {"image": "nginx:1.27", "tier": "Old_Tier"}}"#).unwrap();
        let new = serde_json::from_str(r#"{"spec": {"image": "nginx:1.27", "tier": "New_Tier"}}"#).unwrap();
        assert_eq!(check_update(&old, &new).violations[0].rule, "tier-label");
    }
}
