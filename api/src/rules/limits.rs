//! The rules whose limits the policy draws. Where it draws none they find nothing.

use super::registry::Source;
use super::{Cause, Findings};
use crate::defaults;
use crate::draft::{Draft, Json, Quoted};

/// How many of the allowed values a message lists.
const LISTED: usize = 8;

pub(super) fn image_is_from_an_allowed_registry(_: &Draft<'_>, findings: &mut Findings<'_>) {
    let (Some(allowed), Some(Ok(image))) = (findings.policy.allowed_registries(), findings.image) else {
        return;
    };
    let source = Source::of(image);
    if !allowed.iter().any(|registry| registry.holds(&source)) {
        let source = source.to_string();
        let message = format!("must come from {}, found {}", one_of(allowed), Quoted(&source));
        findings.add(Cause::Forbidden, message);
    }
}

pub(super) fn tier_is_allowed(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    let (Some(allowed), Some(tier)) = (findings.policy.allowed_tiers(), tier(draft)) else { return };
    if !allowed.iter().any(|allowed| allowed == tier) {
        let message = format!("must be {}, found {}", one_of(allowed), Quoted(tier));
        findings.add(Cause::Forbidden, message);
    }
}

pub(super) fn replicas_are_within_the_maximum(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    check_maximum(draft, tier(draft), findings);
}

/// The same where the tier is not known.
pub(super) fn scale_is_within_the_maximum(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    check_maximum(draft, None, findings);
}

fn check_maximum(draft: &Draft<'_>, tier: Option<&str>, findings: &mut Findings<'_>) {
    let replicas = match draft.spec.replicas {
        Json::Absent => i64::from(defaults::REPLICAS),
        Json::Integer(replicas) => replicas,
        _ => return,
    };
    let maximum = findings.policy.max_replicas();
    let in_tier = tier.and_then(|tier| Some((*maximum.tiers.get(tier)?, format!(" in tier {tier}"))));
    let overall = maximum.overall.map(|most| (most, String::new()));
    if let Some((most, place)) = in_tier.into_iter().chain(overall).min_by_key(|(most, _)| *most)
        && replicas > i64::from(most)
    {
        findings.add(Cause::Forbidden, format!("must be at most {most}{place}, found {replicas}"));
    }
}

/// The tier that the object has or will get.
fn tier<'d>(draft: &'d Draft<'_>) -> Option<&'d str> {
    match &draft.spec.tier {
        Json::Absent => Some(defaults::TIER),
        tier => tier.as_text(),
    }
}

/// `a`, `a or b`, `a, b or c`, and never more than a message can carry.
fn one_of(values: &[impl ToString]) -> String {
    let mut shown: Vec<_> = values.iter().take(LISTED).map(ToString::to_string).collect();
    if values.len() > LISTED {
        shown.push(format!("{} more", values.len() - LISTED));
    }
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::Policy;
    use super::*;

    const POLICY: &str = "
allowedRegistries: [docker.io/library, registry.example.com:5000/team]
allowedTiers: [dev, staging, prod]
maxReplicas: {overall: 50, tiers: {dev: 3, prod: 100}}
";

    fn messages(spec: &str) -> Vec<String> {
        let json = format!(r#"{{"metadata": {{"name": "a"}}, "spec": {spec}}}"#);
        let policy = Policy::parse(POLICY.as_bytes()).unwrap();
        let report = policy.check(&serde_json::from_str(&json).unwrap());
        report.violations.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case(r#"{"image": "nginx:1.27"}"#)]
    #[case(r#"{"image": "docker.io/library/nginx:1.27", "tier": "staging", "replicas": 50}"#)]
    #[case(r#"{"image": "registry.example.com:5000/team/app:1", "replicas": 3}"#)]
    fn what_is_within_the_limits_is_accepted(#[case] spec: &str) {
        assert_eq!(messages(spec), Vec::<String>::new());
    }

    #[rstest]
    #[case(
        r#"{"image": "team/app:1"}"#,
        r#"spec.image: must come from docker.io/library or registry.example.com:5000/team, found "docker.io/team/app""#
    )]
    #[case(r#"{"image": "a:1", "tier": "test"}"#, r#"spec.tier: must be dev, staging or prod, found "test""#)]
    #[case(r#"{"image": "a:1", "replicas": 4}"#, "spec.replicas: must be at most 3 in tier dev, found 4")]
    #[case(
        r#"{"image": "a:1", "tier": "prod", "replicas": 51}"#,
        "spec.replicas: must be at most 50, found 51"
    )]
    fn what_is_beyond_them_is_refused_with_what_is_allowed(#[case] spec: &str, #[case] message: &str) {
        assert_eq!(messages(spec), [message]);
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(one_of(&[1]), "1");
        assert_eq!(one_of(&(1..=8).collect::<Vec<_>>()), "1, 2, 3, 4, 5, 6, 7 or 8");
        assert_eq!(one_of(&(1..=10).collect::<Vec<_>>()), "1, 2, 3, 4, 5, 6, 7, 8 or 2 more");
    }
}
