use std::fmt::Write;

use proptest::prelude::*;
use rstest::rstest;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::*;

/// Something of which one part is read and the rest is skipped.
#[derive(Debug, PartialEq, Deserialize)]
struct Partly {
    kept: Value,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Letter {
    A,
    #[serde(other)]
    Other,
}

fn read(text: &str) -> Result<Value, String> {
    from_slice(text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn a_string_without_escapes_is_borrowed() {
    let text = r#" "café" "#.as_bytes();
    assert_eq!(from_slice::<&str>(text).unwrap(), "café");
}

#[test]
fn a_variant_is_read_from_a_string_in_any_spelling() {
    let letter = |text: &str| from_slice::<Letter>(text.as_bytes());
    assert_eq!(letter(r#""A""#), Ok(Letter::A));
    assert_eq!(letter(r#""\u0041""#), Ok(Letter::A));
    assert_eq!(letter(r#""x""#), Ok(Letter::Other));
    assert!(letter("7").is_err() && letter("{}").is_err() && letter("null").is_err());
}

#[rstest]
#[case("", "the text ends too early at byte 0")]
#[case("[1", "the text ends too early at byte 2")]
#[case("[1 2]", "a comma or a closing bracket is missing at byte 3")]
#[case("[1}", "a comma or a closing bracket is missing at byte 2")]
#[case("[1,]", "a value is missing at byte 3")]
#[case("{\"a\":1,}", "the name of a member is missing at byte 7")]
#[case("{a:1}", "the name of a member is missing at byte 1")]
#[case("{\"a\" 1}", "a colon is missing at byte 5")]
#[case("{\"a\"}", "a colon is missing at byte 4")]
#[case("1 2", "there is more behind the value at byte 2")]
#[case("\"a", "a string is not closed at byte 0")]
#[case("\"a\\\"", "a string is not closed at byte 0")]
#[case("\"a\nb\"", "control character")]
#[case("\"\\ud800\"", "unexpected end of hex escape")]
#[case("\"\\x\"", "invalid escape")]
#[case("nul", "EOF while parsing a value at byte 3")]
#[case("01", "invalid number at byte 2")]
#[case("-", "EOF while parsing a value at byte 1")]
#[case("1e999", "number out of range at byte 5")]
#[case("+1", "expected value")]
fn what_is_no_json_is_refused_with_a_place(#[case] text: &str, #[case] expected: &str) {
    let error = read(text).unwrap_err();
    assert!(error.contains(expected) && !error.contains("line"), "{error}");
    serde_json::from_str::<Value>(text).unwrap_err();
}

#[test]
fn nesting_is_followed_as_far_as_in_serde_json_and_skipped_at_any_depth() {
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    for depth in [127, 128] {
        assert_eq!(read(&nested(depth)).is_ok(), serde_json::from_str::<Value>(&nested(depth)).is_ok());
    }
    let text = format!(r#"{{"deep": {}, "kept": 1}}"#, nested(100_000));
    assert_eq!(from_slice(text.as_bytes()), Ok(Partly { kept: json!(1) }));
}

#[rstest]
#[case("{\"skipped\": [\"]\", \"\\\"]\"], \"kept\": 1}")]
#[case("{\"skipped\": \"\\\\\", \"kept\": 1}")]
#[case("{\"skipped\": {\"\\\\\\\\\": \"}\\\\\"}, \"kept\": 1}")]
#[case("{\"skipped\": -1.5e+3 , \"kept\": 1}")]
#[case("{\"skipped\": null,\"kept\": 1}")]
fn what_is_skipped_ends_where_it_ends(#[case] text: &str) {
    assert_eq!(from_slice(text.as_bytes()), Ok(Partly { kept: json!(1) }));
}

#[rstest]
#[case("{\"skipped\": [\"]\", \"kept\": 1}", "the text ends too early")]
#[case("{\"skipped\": [1, \"kept\": 1", "a bracket is not closed")]
#[case("{\"skipped\": \"\\\", \"kept\": 1}", "a comma or a closing bracket is missing")]
#[case("{\"skipped\": nul, \"kept\": 1}", "EOF while parsing a value at byte 15")]
#[case("{\"skipped\": , \"kept\": 1}", "a value is missing")]
fn what_is_skipped_must_be_closed(#[case] text: &str, #[case] expected: &str) {
    let error = from_slice::<Partly>(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

fn condensed<'t>(pieces: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut condensed = Condensed::default();
    pieces.into_iter().for_each(|piece| condensed.push(piece));
    String::from_utf8(condensed.into_text()).unwrap()
}

#[rstest]
#[case(
    r#"{"annotations":{"a":"}"},"b":{"managedFields":[{"c":["]"]}]}}"#,
    r#"{"annotations":{},"b":{"managedFields":[]}}"#
)]
#[case(r#"{"annotations":{},"managedFields":[]}"#, r#"{"annotations":{},"managedFields":[]}"#)]
#[case(r#"{"annotations":null,"managedFields":"x"}"#, r#"{"annotations":null,"managedFields":"x"}"#)]
#[case(
    r#"{"a":"\"annotations\":{","b":["annotations"]}"#,
    r#"{"a":"\"annotations\":{","b":["annotations"]}"#
)]
#[case(r#"{"annotations":{"a":{"annotations":{}}}}"#, r#"{"annotations":{}}"#)]
#[case(r#"{"annotations":{"a":1"#, r#"{"annotations":{"#)]
fn annotations_and_managed_fields_are_emptied(#[case] text: &str, #[case] expected: &str) {
    for length in 1..=text.len() {
        assert_eq!(condensed(text.as_bytes().chunks(length)), expected, "in pieces of {length} bytes");
    }
}

#[test]
fn of_more_fillers_than_two_objects_have_the_rest_is_kept() {
    let text = r#"{"annotations":{"a":1}}"#.repeat(6);
    let expected = r#"{"annotations":{}}"#.repeat(4) + &r#"{"annotations":{"a":1}}"#.repeat(2);
    assert_eq!(condensed([text.as_bytes()]), expected);
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![".{0,12}", r#"[\\"\[\]{}:, a]{0,80}"#];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(text.clone(), inner, 0..8).prop_map(|members| json!(members)),
        ]
    })
}

/// Compact or with white space.
fn written(value: &Value, pretty: bool) -> String {
    if pretty { format!("{value:#}") } else { value.to_string() }
}

/// A text with one of its bytes lost, doubled or replaced: mostly no JSON any more.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let damage = (any::<prop::sample::Index>(), 0..3, prop::sample::select(br#"\"[]{},:0e-a "#.to_vec()));
    (any_json(), any::<bool>(), damage).prop_map(|(value, pretty, (index, kind, byte))| {
        let mut text = written(&value, pretty).into_bytes();
        let at = index.index(text.len());
        match kind {
            0 => drop(text.remove(at)),
            1 => text.insert(at, text[at]),
            _ => text[at] = byte,
        }
        text
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(value in any_json(), pretty: bool) {
        let text = written(&value, pretty);
        prop_assert_eq!(read(&text).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn of_what_is_read_serde_json_thinks_the_same(text in damaged()) {
        let (ours, theirs) = (from_slice::<Value>(&text), serde_json::from_slice::<Value>(&text));
        prop_assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{:?}, {:?}", ours, theirs);
    }

    #[test]
    fn what_serde_json_skips_is_skipped_to_the_same_end(skipped in any_json(), kept in any_json(), pretty: bool) {
        let mut text = String::from("{");
        _ = write!(text, r#""skipped": {}, "kept": {}"#, written(&skipped, pretty), written(&kept, pretty));
        text.push('}');
        let ours: Partly = from_slice(text.as_bytes()).unwrap();
        prop_assert_eq!(ours, serde_json::from_str(&text).unwrap());
    }

    #[test]
    fn what_fills_a_text_is_emptied_wherever_that_is_cut(filler in any_json(), kept in any_json(), length in 1..200_usize) {
        let around = |filler: &str| format!(r#"{{"kept":{kept},"managedFields":{filler},"b":1}}"#);
        let text = around(&json!([filler]).to_string());
        prop_assert_eq!(condensed(text.as_bytes().chunks(length)), around("[]"));
    }

    #[test]
    fn nothing_is_skipped_that_was_cut_off(value in any_json(), cut: prop::sample::Index) {
        let text = json!([value]).to_string();
        let text = &text.as_bytes()[..cut.index(text.len())];
        prop_assert!(from_slice::<IgnoredAny>(text).is_err());
    }

    #[test]
    fn whatever_comes_there_is_an_end(text in prop::collection::vec(any::<u8>(), 0..200)) {
        _ = from_slice::<IgnoredAny>(&text);
        _ = from_slice::<Partly>(&text);
    }
}
