//! What whoever runs the cluster demands beyond what makes an object work.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Deserialize;

use super::names::label_fault;
use super::registry::Registry;
use super::table::RULES;
use super::{Kind, Level, Rule};
use crate::constants::MAX_TIER;
use crate::draft::Quoted;

/// The limits of the policy rules and how much each rule weighs. The default draws no limits and leaves each rule its own
/// level.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Policy {
    allowed_registries: Option<Vec<Registry>>,
    allowed_tiers: Option<Vec<String>>,
    max_replicas: MaxReplicas,
    levels: BTreeMap<&'static str, Level>,
}

/// The most replicas of one WebService.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct MaxReplicas {
    pub(super) overall: Option<i32>,
    pub(super) tiers: BTreeMap<String, i32>,
}

/// Why a text is no policy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// It is not YAML, or a field is unknown or of another type.
    #[error("failed to read the policy: {0}")]
    Malformed(String),
    /// There is nothing in it: more likely lost than meant.
    #[error("failed to read the policy: it is empty; write {{}} for one that demands nothing")]
    Empty,
    /// A field has a value that cannot be meant.
    #[error("failed to read the policy: {field} is {value}; {remedy}")]
    Value {
        /// Its path.
        field: String,
        /// What was found, quoted and cut.
        value: String,
        /// What to write instead.
        remedy: String,
    },
}

/// The file as it is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct File {
    allowed_registries: Option<Vec<String>>,
    allowed_tiers: Option<Vec<String>>,
    max_replicas: FileMaxReplicas,
    levels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FileMaxReplicas {
    overall: Option<i64>,
    tiers: BTreeMap<String, i64>,
}

impl Policy {
    /// Reads a policy from YAML; `docs/reference/rules.md` shows one. What it does not know it refuses: a limit with a
    /// typing error in its name would be none.
    pub fn parse(yaml: &[u8]) -> Result<Self, PolicyError> {
        let options = serde_saphyr::options! { with_snippet: false };
        let file: Option<File> = serde_saphyr::from_slice_with_options(yaml, options)
            .map_err(|error| PolicyError::Malformed(error.to_string()))?;
        let File { allowed_registries, allowed_tiers, max_replicas, levels } =
            file.ok_or(PolicyError::Empty)?;
        Ok(Self {
            allowed_registries: allowed_registries.as_deref().map(registries).transpose()?,
            allowed_tiers: allowed_tiers.as_deref().map(tiers).transpose()?,
            max_replicas: maxima(max_replicas)?,
            levels: levels.into_iter().map(|(id, level)| weight(&id, &level)).collect::<Result<_, _>>()?,
        })
    }

    /// How much a rule weighs. Structural rules are not for a policy to weigh.
    #[must_use]
    pub fn level(&self, rule: &Rule) -> Level {
        self.levels.get(rule.id).copied().unwrap_or(rule.level)
    }

    pub(super) fn allowed_registries(&self) -> Option<&[Registry]> {
        self.allowed_registries.as_deref()
    }

    pub(super) fn allowed_tiers(&self) -> Option<&[String]> {
        self.allowed_tiers.as_deref()
    }

    pub(super) fn max_replicas(&self) -> &MaxReplicas {
        &self.max_replicas
    }
}

fn registries(texts: &[String]) -> Result<Vec<Registry>, PolicyError> {
    each("allowedRegistries", texts, |text| Registry::parse(text).ok_or_else(|| Registry::REMEDY.into()))
}

fn tiers(texts: &[String]) -> Result<Vec<String>, PolicyError> {
    each("allowedTiers", texts, |text| tier(text).map(|()| text.to_owned()))
}

/// Reads the entries of a list. An empty one would allow nothing at all, which nobody means.
fn each<T>(
    field: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, PolicyError> {
    if texts.is_empty() {
        return Err(wrong(
            field,
            "an empty list",
            "name what is allowed, or leave the field out to allow everything",
        ));
    }
    let entry = |(index, text): (usize, &String)| {
        read(text).map_err(|remedy| wrong(format!("{field}[{index}]"), Quoted(text), remedy))
    };
    texts.iter().enumerate().map(entry).collect()
}

fn maxima(file: FileMaxReplicas) -> Result<MaxReplicas, PolicyError> {
    let in_tier = |(name, most): (String, i64)| {
        let field = format!("maxReplicas.tiers.{name}");
        tier(&name).map_err(|remedy| wrong("maxReplicas.tiers", Quoted(&name), remedy))?;
        Ok((name, maximum(&field, most)?))
    };
    Ok(MaxReplicas {
        overall: file.overall.map(|most| maximum("maxReplicas.overall", most)).transpose()?,
        tiers: file.tiers.into_iter().map(in_tier).collect::<Result<_, _>>()?,
    })
}

fn maximum(field: &str, most: i64) -> Result<i32, PolicyError> {
    let in_range = i32::try_from(most).ok().filter(|most| *most >= 0);
    in_range.ok_or_else(|| wrong(field, most, format!("write a whole number from 0 to {}", i32::MAX)))
}

fn tier(name: &str) -> Result<(), String> {
    label_fault(name, MAX_TIER).map_or(Ok(()), |(_, fault)| Err(format!("a tier {fault}")))
}

fn weight(id: &str, level: &str) -> Result<(&'static str, Level), PolicyError> {
    let mut rules = RULES.iter().filter(|rule| rule.kind == Kind::Policy);
    let Some(rule) = rules.clone().find(|rule| rule.id == id) else {
        let known: Vec<_> = rules.by_ref().map(|rule| rule.id).collect();
        return Err(wrong("levels", Quoted(id), format!("rules with a level are {}", known.join(", "))));
    };
    let Some(level) = Level::ALL.into_iter().find(|known| known.as_str() == level) else {
        return Err(wrong(format!("levels.{id}"), Quoted(level), "write off, warn or enforce"));
    };
    Ok((rule.id, level))
}

fn wrong(field: impl Into<String>, value: impl Display, remedy: impl Into<String>) -> PolicyError {
    PolicyError::Value { field: field.into(), value: format!("{value}"), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_policy_that_demands_nothing_is_the_default() {
        assert_eq!(Policy::parse(b"{}"), Ok(Policy::default()));
    }

    #[test]
    fn what_is_written_is_read() {
        let policy = Policy::parse(
            b"
allowedRegistries:
- docker.io
allowedTiers: [dev]
maxReplicas:
  overall: 10
  tiers: {dev: 0}
levels:
  tier-allowed: off   # not false
  image-pinned: enforce
",
        )
        .unwrap();
        assert_eq!(policy.allowed_registries().map(<[_]>::len), Some(1));
        assert_eq!(policy.allowed_tiers(), Some(&["dev".to_owned()][..]));
        assert_eq!((policy.max_replicas.overall, policy.max_replicas.tiers["dev"]), (Some(10), 0));
        let weights: Vec<_> = policy.levels.into_iter().collect();
        assert_eq!(weights, [("image-pinned", Level::Enforce), ("tier-allowed", Level::Off)]);
    }

    #[rstest]
    #[case("", "it is empty; write {}")]
    #[case("# later\n", "it is empty; write {}")]
    #[case("maxReplica: {overall: 3}", "maxReplica")]
    #[case("maxReplicas: {all: 3}", "all")]
    #[case("maxReplicas: 3", "line 1")]
    #[case("allowedTiers: [dev\n", "line ")]
    #[case("{}\n---\n{}", "document")]
    #[case("levels: {image-pinned: off, image-pinned: warn}", "image-pinned")]
    #[case("allowedTiers: []", "allowedTiers is an empty list; name what is allowed")]
    #[case(r"allowedTiers: [dev, Prod]", r#"allowedTiers[1] is "Prod"; a tier must be a DNS label"#)]
    #[case(
        "allowedRegistries: ['https://quay.io']",
        r#"allowedRegistries[0] is "https://quay.io"; write host[:port]"#
    )]
    #[case("maxReplicas: {overall: -1}", "maxReplicas.overall is -1; write a whole number from 0")]
    #[case(
        "maxReplicas: {tiers: {dev: 3000000000}}",
        "maxReplicas.tiers.dev is 3000000000; write a whole number"
    )]
    #[case("maxReplicas: {tiers: {Dev: 3}}", r#"maxReplicas.tiers is "Dev"; a tier must"#)]
    #[case(
        "levels: {image-regstry: warn}",
        r#"levels is "image-regstry"; rules with a level are image-registry, "#
    )]
    #[case("levels: {image-required: off}", r#"levels is "image-required"; rules with a level are"#)]
    #[case("levels: {image-pinned: on}", r#"levels.image-pinned is "on"; write off, warn or enforce"#)]
    fn a_mistake_is_told_with_field_value_and_remedy(#[case] yaml: &str, #[case] message: &str) {
        let error = Policy::parse(yaml.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("failed to read the policy: "), "{error}");
        assert!(error.contains(message) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn what_is_no_text_is_no_policy() {
        assert!(Policy::parse(b"\xff\xfe\x00").is_err());
    }
}
