//! A `WebService` as somebody wrote it, before anyone knows whether it is one.
//!
//! Mutating webhooks see objects before the schema is checked, people hand any file to the plugin, and objects stored
//! under an older schema reach the controller: any JSON type may stand anywhere. A [`Draft`] therefore decodes from
//! every well-formed JSON value without error. It borrows from the input, looks closely at the few fields that rules
//! speak about, and skips everything else unread.

mod decode;

use std::borrow::Cow;
use std::fmt;

/// One JSON value of a field that rules speak about. `null` and absence are both [`Json::Absent`].
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json<'a> {
    /// Not given, or null, which means the same.
    #[default]
    Absent,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number within 64 bits.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Json<'a>>),
    /// An object, with its members in the order written; of a repeated name the last counts.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl Json<'_> {
    /// Whether the field was not given.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Json::Absent)
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The entries, none if it is not a list.
    #[must_use]
    pub fn entries(&self) -> &[Self] {
        match self {
            Json::List(entries) => entries,
            _ => &[],
        }
    }

    /// The member called `name`; absent where it is missing or this is no object.
    #[must_use]
    pub fn member(&self, name: &str) -> &Self {
        match self {
            Json::Object(members) => {
                members.iter().rev().find(|(key, _)| key == name).map_or(&Json::Absent, |(_, value)| value)
            }
            _ => &Json::Absent,
        }
    }
}

/// Says what was found, for the end of a sentence: `the string "two"`, `1.5`, `a list`.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Absent => f.write_str("nothing"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Integer(value) => write!(f, "{value}"),
            Json::Number(value) => write!(f, "{value:?}"),
            Json::Text(text) => write!(f, "the string {}", Quoted(text)),
            Json::List(_) => f.write_str("a list"),
            Json::Object(_) => f.write_str("an object"),
        }
    }
}

/// A value in quotes, escaped and cut to a length that a message can carry.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 80;
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// The fields of a `WebService` that rules, defaults and the finalizer are about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft<'a> {
    /// `apiVersion`.
    pub api_version: Json<'a>,
    /// `kind`.
    pub kind: Json<'a>,
    /// The few members of `metadata` that matter.
    pub metadata: Metadata<'a>,
    /// `spec`.
    pub spec: Spec<'a>,
}

impl Draft<'_> {
    /// Whether deletion has begun: from then on only finalizers matter.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        !self.metadata.deletion_timestamp.is_absent()
    }

    /// Whether our cleanup finalizer is listed.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.entries().iter().any(|entry| entry.as_text() == Some(finalizer))
    }
}

/// The members of `metadata` that matter here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata<'a> {
    /// Whether it was an object, so that a member can be added to it.
    pub is_object: bool,
    /// `name`; absent before `generateName` has been resolved.
    pub name: Json<'a>,
    /// `generateName`.
    pub generate_name: Json<'a>,
    /// `deletionTimestamp`.
    pub deletion_timestamp: Json<'a>,
    /// `finalizers`.
    pub finalizers: Json<'a>,
}

/// `spec`, each field as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec<'a> {
    /// Set where `spec` is missing or no object; the fields are absent then.
    pub shape: SpecShape<'a>,
    /// `image`.
    pub image: Json<'a>,
    /// `replicas`.
    pub replicas: Json<'a>,
    /// `tier`.
    pub tier: Json<'a>,
    /// `dependsOn`.
    pub depends_on: Json<'a>,
    /// `suspend`.
    pub suspend: Json<'a>,
    /// Names of fields that this version does not know; at most [`MAX_UNKNOWN`] are remembered.
    pub unknown: Vec<Cow<'a, str>>,
}

/// How `spec` itself was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SpecShape<'a> {
    /// Not given, or null.
    #[default]
    Absent,
    /// An object, as it should be.
    Object,
    /// Something else.
    Other(Json<'a>),
}

/// How many unknown field names of `spec` a [`Draft`] remembers.
pub const MAX_UNKNOWN: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    fn draft(json: &str) -> Draft<'_> {
        serde_json::from_str(json).expect("every well-formed JSON value is a draft")
    }

    #[test]
    fn fields_are_borrowed_from_the_input() {
        let json = r#"{"spec": {"image": "nginx:1.27", "replicas": 3}}"#;
        let draft = draft(json);
        assert!(matches!(draft.spec.image, Json::Text(Cow::Borrowed("nginx:1.27"))));
        assert_eq!(draft.spec.replicas, Json::Integer(3));
    }

    #[test]
    fn null_means_absent() {
        let draft = draft(r#"{"metadata": null, "spec": {"image": null}}"#);
        assert!(draft.spec.image.is_absent());
        assert_eq!(draft.spec.shape, SpecShape::Object);
        assert_eq!(draft.metadata, Metadata::default());
    }

    #[test]
    fn of_a_repeated_member_the_last_counts() {
        assert_eq!(
            draft(r#"{"spec": {"image": "a"}, "spec": {"image": "b"}}"#).spec.image.as_text(),
            Some("b")
        );
    }

    #[test]
    fn a_spec_of_another_type_is_remembered_as_such() {
        assert_eq!(draft(r#"{"spec": []}"#).spec.shape, SpecShape::Other(Json::List(Vec::new())));
        assert_eq!(draft(r#"{"spec": "x"}"#).spec.shape, SpecShape::Other(Json::Text("x".into())));
        assert_eq!(draft("{}").spec.shape, SpecShape::Absent);
    }

    #[test]
    fn the_same_object_reads_alike_from_text_and_from_a_value() {
        let json = r#"{"metadata": {"finalizers": ["a"]}, "spec": {"image": "a\nb", "replicas": 1.5, "dependsOn": [{"name": "x"}], "zzz": {}}}"#;
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(Draft::deserialize(&value).unwrap(), draft(json));
    }

    #[test]
    fn long_values_are_cut_in_messages() {
        assert_eq!(Quoted(&"é".repeat(100)).to_string().chars().count(), 83);
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<i32>().prop_map(|quarters| (f64::from(quarters) / 4.0).into()),
            ".{0,8}".prop_map(Into::into),
        ];
        let name = prop_oneof![
            Just("spec"),
            Just("metadata"),
            Just("image"),
            Just("dependsOn"),
            Just("finalizers"),
            Just("x")
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::vec((name.clone(), inner), 0..4).prop_map(|members| members
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect::<serde_json::Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_json_value_is_a_draft(value in any_json()) {
            let text = value.to_string();
            let from_text = serde_json::from_str::<Draft>(&text);
            prop_assert!(from_text.is_ok(), "{from_text:?}");
            prop_assert_eq!(from_text.unwrap(), Draft::deserialize(&value).unwrap());
        }
    }
}
