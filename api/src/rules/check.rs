//! Asking the rules about an object.

use super::image::{self, Image};
use super::limits;
use super::policy::Policy;
use super::table::{REPLICAS_MAXIMUM, RULES};
use super::{Findings, Kind, Level, Report, Violation};
use crate::draft::{Draft, Json};

/// Checks every rule of the table, under a policy that sets no limits.
#[must_use]
pub fn check(draft: &Draft<'_>) -> Report {
    Policy::default().check(draft)
}

/// Checks the structural rules alone: whether the object can be reconciled.
#[must_use]
pub fn check_structure(draft: &Draft<'_>) -> Vec<Violation> {
    structure(draft, image::read(draft))
}

fn structure(draft: &Draft<'_>, image: Image<'_>) -> Vec<Violation> {
    let (policy, mut violations) = (Policy::default(), Vec::new());
    for rule in RULES.iter().filter(|rule| rule.kind == Kind::Structural) {
        (rule.check)(draft, &mut Findings { rule, policy: &policy, image, into: &mut violations });
    }
    violations
}

impl Policy {
    /// Checks every rule of the table. Policy speaks of sound values only: one message for one mistake.
    #[must_use]
    pub fn check(&self, draft: &Draft<'_>) -> Report {
        let image = image::read(draft);
        let mut report = Report { violations: structure(draft, image), ..Report::default() };
        let unsound = report.violations.len();
        for rule in RULES.iter().filter(|rule| rule.kind == Kind::Policy) {
            if report.violations[..unsound].iter().any(|violation| violation.field == rule.field) {
                continue;
            }
            if let Some(into) = report.side(self.level(rule)) {
                (rule.check)(draft, &mut Findings { rule, policy: self, image, into });
            }
        }
        report
    }

    /// Checks an update. A violation that the old object had already, in a field that the update leaves alone, becomes a
    /// warning: whoever changes one field is not made to mend another (ratcheting).
    #[must_use]
    pub fn check_update(&self, old: &Draft<'_>, new: &Draft<'_>) -> Report {
        ratchet(old, new, |draft| self.check(draft))
    }

    /// Checks a write to the scale subresource. A Scale has no tier, so the overall maximum alone can be judged.
    #[must_use]
    pub fn check_scale(&self, old: &Draft<'_>, new: &Draft<'_>) -> Report {
        ratchet(old, new, |scale| {
            let mut report = Report::default();
            if let Some(into) = report.side(self.level(&REPLICAS_MAXIMUM)) {
                let findings = &mut Findings { rule: &REPLICAS_MAXIMUM, policy: self, image: None, into };
                limits::scale_is_within_the_maximum(scale, findings);
            }
            report
        })
    }
}

impl Report {
    /// Where a broken rule of this level is told, if anywhere.
    fn side(&mut self, level: Level) -> Option<&mut Vec<Violation>> {
        match level {
            Level::Off => None,
            Level::Warn => Some(&mut self.warnings),
            Level::Enforce => Some(&mut self.violations),
        }
    }
}

fn ratchet<'a>(old: &Draft<'a>, new: &Draft<'a>, check: impl Fn(&Draft<'a>) -> Report) -> Report {
    let mut report = check(new);
    if report.violations.is_empty() {
        return report;
    }
    let before = check(old).violations;
    // The message alone would not tell: it shows a long value cut, or not at all.
    let is_inherited = |violation: &Violation| {
        before.contains(violation) && value_at(old, &violation.field) == value_at(new, &violation.field)
    };
    let (inherited, fresh) = report.violations.into_iter().partition(is_inherited);
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

/// The value that a violation of `field` is about.
fn value_at<'d, 'a>(draft: &'d Draft<'a>, field: &str) -> &'d Json<'a> {
    match field {
        "metadata.name" => &draft.metadata.name,
        "metadata.generateName" => &draft.metadata.generate_name,
        "spec.image" => &draft.spec.image,
        "spec.replicas" => &draft.spec.replicas,
        "spec.tier" => &draft.spec.tier,
        "spec.suspend" => &draft.spec.suspend,
        "spec.dependsOn" => &draft.spec.depends_on,
        entry => {
            index(entry).and_then(|index| draft.spec.depends_on.entries().get(index)).unwrap_or(&Json::Absent)
        }
    }
}

/// 2 of `spec.dependsOn[2].name`.
fn index(field: &str) -> Option<usize> {
    field.strip_prefix("spec.dependsOn[")?.split(']').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(json: &str) -> Draft<'_> {
        serde_json::from_str(json).unwrap()
    }

    fn report(json: &str) -> Report {
        check(&draft(json))
    }

    fn policy(yaml: &str) -> Policy {
        Policy::parse(yaml.as_bytes()).unwrap()
    }

    fn rules(findings: &[Violation]) -> Vec<&str> {
        findings.iter().map(|finding| finding.rule).collect()
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
        let old = draft(r#"{"spec": {"image": "nginx:1.27", "tier": "Old_Tier", "replicas": 1}}"#);
        let new = draft(r#"{"spec": {"image": "nginx:1.27", "tier": "Old_Tier", "replicas": 2}}"#);
        let report = Policy::default().check_update(&old, &new);
        assert_eq!(report.violations, []);
        assert_eq!(rules(&report.warnings), ["tier-label"]);
    }

    #[test]
    fn a_new_violation_is_refused_even_where_the_old_value_was_bad_too() {
        let old = draft(r#"{"spec": {"image": "nginx:1.27", "tier": "Old_Tier"}}"#);
        let new = draft(r#"{"spec": {"image": "nginx:1.27", "tier": "New_Tier"}}"#);
        assert_eq!(rules(&Policy::default().check_update(&old, &new).violations), ["tier-label"]);
    }

    #[test]
    fn a_change_beyond_what_a_message_shows_is_a_change() {
        let spec = |end: &str, name: &str| {
            let (image, dependency) =
                (format!("{}//{end}", "a".repeat(100)), format!("{}{name}", "d".repeat(70)));
            format!(r#"{{"spec": {{"image": "{image}", "dependsOn": [{{"name": "{dependency}"}}]}}}}"#)
        };
        let old = spec("x", "x");
        let touched = |new: &str| Policy::default().check_update(&draft(&old), &draft(new)).violations;
        assert_eq!(rules(&touched(&old)), Vec::<&str>::new());
        assert_eq!(rules(&touched(&spec("y", "x"))), ["image-reference"]);
        assert_eq!(rules(&touched(&spec("x", "y"))), ["depends-on-list"]);
    }

    #[test]
    fn a_policy_that_an_untouched_field_breaks_is_a_warning_on_update() {
        let policy = policy("{allowedTiers: [prod], maxReplicas: {overall: 3}}");
        let old = draft(r#"{"spec": {"image": "nginx:1.27", "tier": "dev", "replicas": 9}}"#);
        let new = draft(r#"{"spec": {"image": "nginx:1.28", "tier": "dev", "replicas": 9}}"#);
        let report = policy.check_update(&old, &new);
        assert_eq!(
            (rules(&report.violations), rules(&report.warnings)),
            (vec![], vec!["tier-allowed", "replicas-maximum"])
        );
        let raised = draft(r#"{"spec": {"image": "nginx:1.28", "tier": "dev", "replicas": 10}}"#);
        assert_eq!(rules(&policy.check_update(&old, &raised).violations), ["replicas-maximum"]);
    }

    #[test]
    fn a_policy_is_silent_about_values_that_are_wrong_anyway() {
        let policy =
            policy("{allowedRegistries: [ghcr.io], allowedTiers: [prod], maxReplicas: {overall: 3}}");
        let found = policy.check(&draft(r#"{"spec": {"image": "NGINX", "tier": "X_", "replicas": "9"}}"#));
        assert_eq!(rules(&found.violations), ["image-reference", "replicas-range", "tier-label"]);
        assert_eq!(found.warnings, []);
    }

    #[test]
    fn a_policy_decides_how_much_a_rule_weighs() {
        let sample = draft(r#"{"spec": {"image": "nginx", "tier": "dev"}}"#);
        let weighed = |levels: &str| {
            let report = policy(&format!("{{allowedTiers: [prod], levels: {levels}}}")).check(&sample);
            let [violations, warnings] =
                [report.violations, report.warnings].map(|side| rules(&side).join(","));
            (violations, warnings)
        };
        let side = |violations: &str, warnings: &str| (violations.to_owned(), warnings.to_owned());
        assert_eq!(weighed("{}"), side("tier-allowed", "image-pinned"));
        assert_eq!(
            weighed("{tier-allowed: warn, image-pinned: enforce}"),
            side("image-pinned", "tier-allowed")
        );
        assert_eq!(weighed("{tier-allowed: off, image-pinned: off}"), side("", ""));
    }

    #[test]
    fn a_scale_is_judged_by_the_overall_maximum_alone() {
        let scale = |replicas: u32| format!(r#"{{"kind": "Scale", "spec": {{"replicas": {replicas}}}}}"#);
        let written = |policy: &Policy, old: u32, new: u32| {
            let report = policy.check_scale(&draft(&scale(old)), &draft(&scale(new)));
            (report.violations.len(), report.warnings.len())
        };
        let strict = policy("maxReplicas: {overall: 5, tiers: {dev: 1}}");
        assert_eq!(written(&strict, 1, 5), (0, 0));
        assert_eq!(written(&strict, 1, 6), (1, 0));
        assert_eq!(written(&strict, 6, 6), (0, 1));
        let gentle = policy("{maxReplicas: {overall: 5}, levels: {replicas-maximum: warn}}");
        assert_eq!(written(&gentle, 1, 6), (0, 1));
        assert_eq!(written(&Policy::default(), 1, i32::MAX.cast_unsigned()), (0, 0));
    }
}
