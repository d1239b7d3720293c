//! Bodies that nobody should send. Whatever comes: no panic, no hang, no allowance by mistake, and every answer is well
//! formed. `Expected` is what the validating webhook says; the mutating one must agree about what is readable at all.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::hostile_wire::HANG;
use crate::support::{Client, MUTATE, Reply, Served, VALIDATE, creation, webservice};

/// What the validating webhook must answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    /// HTTP 400: nobody could say which question it is.
    Unanswerable,
    Allowed,
    /// Refused with this code.
    Denied(u16),
}
use Expected::{Allowed, Denied, Unanswerable};

struct Case {
    what: String,
    body: Vec<u8>,
    expected: Expected,
}

fn case(what: impl Into<String>, body: impl Into<Vec<u8>>, expected: Expected) -> Case {
    Case { what: what.into(), body: body.into(), expected }
}

/// A good review with one member of the request replaced.
fn request_with(member: &str, value: &Value) -> String {
    let mut review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    review["request"][member] = value.clone();
    review.to_string()
}

/// A good review without one member of the request.
fn request_without(member: &str) -> String {
    let mut review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    review["request"].as_object_mut().unwrap().remove(member);
    review.to_string()
}

/// A creation whose object is this text, which need not be JSON.
fn raw_object(object: &str) -> String {
    creation(&json!("OBJECT")).to_string().replace(r#""OBJECT""#, object)
}

/// A creation whose spec is this text.
fn raw_spec(spec: &str) -> String {
    raw_object(&format!(r#"{{"metadata": {{"name": "checkout"}}, "spec": {spec}}}"#))
}

fn good() -> String {
    creation(&webservice(&json!({"image": "nginx:1.27"}))).to_string()
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn no_json() -> Vec<Case> {
    let good = good();
    let mut cases: Vec<_> = [
        "",
        " ",
        "null",
        "true",
        "7",
        "\"text\"",
        "[]",
        "{}",
        "[[]]",
        "{",
        "}",
        "{\"",
        "nul",
        "{]",
        "\u{feff}{}",
        "\0",
        "apiVersion: admission.k8s.io/v1",
        "<xml/>",
        "--1",
        "1e999",
        "{\"a\":1,}",
        "{'a':1}",
    ]
    .into_iter()
    .map(|text| case(format!("the text {text:?}"), text, Unanswerable))
    .collect();
    for length in (1..good.len()).step_by(29) {
        cases.push(case(
            format!("a review cut off after {length} bytes"),
            &good.as_bytes()[..length],
            Unanswerable,
        ));
    }
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    cases.push(case("UTF-16", utf16, Unanswerable));
    cases.push(case("two reviews", good.repeat(2), Unanswerable));
    cases.push(case("bytes after the review", format!("{good}x"), Unanswerable));
    cases.push(case("every byte once", (0..=255).collect::<Vec<u8>>(), Unanswerable));
    cases.push(case("nothing but brackets", nested(1_000_000), Unanswerable));
    cases
}

fn envelopes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (member, values) in [
        (
            "apiVersion",
            json!([null, 7, "", "v1", "admission.k8s.io/v1beta1", "admission.k8s.io/v2", "apps/v1", {}]),
        ),
        ("kind", json!([null, 7, "", "Review", "admissionreview", "ConversionReview", []])),
        ("request", json!([null, 7, "", true, [], {}, {"uid": "u"}, {"operation": "CREATE"}])),
    ] {
        for value in values.as_array().unwrap() {
            let mut review = creation(&webservice(&json!({"image": "nginx:1.27"})));
            review[member] = value.clone();
            cases.push(case(format!("{member} is {value}"), review.to_string(), Unanswerable));
        }
    }
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", "allowed": true}});
    cases.push(case("an answer", answer.to_string(), Unanswerable));
    let twice = good().replacen("\"request\":", "\"request\": null, \"request\":", 1);
    cases.push(case("two requests", twice, Unanswerable));
    cases.push(case("an unknown member", good().replacen('{', r#"{"x": [1, {"y": null}], "#, 1), Allowed));
    cases
}

fn requests() -> Vec<Case> {
    let mut cases = Vec::new();
    for value in [json!(null), json!(7), json!(1.5), json!(true), json!([]), json!({}), json!("")] {
        cases.push(case(format!("uid is {value}"), request_with("uid", &value), Unanswerable));
    }
    for value in [json!(null), json!(7), json!([]), json!({})] {
        cases.push(case(format!("operation is {value}"), request_with("operation", &value), Unanswerable));
    }
    for (member, value) in [
        ("name", json!(7)),
        ("namespace", json!([])),
        ("subResource", json!({})),
        ("kind", json!("x")),
        ("userInfo", json!(7)),
    ] {
        cases.push(case(format!("{member} is {value}"), request_with(member, &value), Unanswerable));
    }
    cases.push(case("no uid", request_without("uid"), Unanswerable));
    cases.push(case("no operation", request_without("operation"), Unanswerable));
    cases.push(case(
        "two uids",
        good().replacen("\"uid\":", "\"uid\": \"other\", \"uid\":", 1),
        Unanswerable,
    ));
    for member in ["kind", "resource", "name", "namespace", "userInfo", "oldObject", "options", "dryRun"] {
        cases.push(case(format!("no {member}"), request_without(member), Allowed));
    }
    for member in ["options", "dryRun", "resource", "requestKind", "unheardOf"] {
        for value in [json!(null), json!(7), json!([{}]), json!("x")] {
            cases.push(case(format!("{member} is {value}"), request_with(member, &value), Allowed));
        }
    }
    cases.push(case(
        "a uid with everything in it",
        request_with("uid", &json!("\"\\\n\u{0}é\u{1f600}")),
        Allowed,
    ));
    cases.push(case("a uid of 100 KB", request_with("uid", &json!("u".repeat(100_000))), Allowed));
    cases.push(case("a name of 100 KB", request_with("name", &json!("n".repeat(100_000))), Allowed));
    cases
}

fn operations() -> Vec<Case> {
    let broken = webservice(&json!({"replicas": "two"}));
    let mut cases = Vec::new();
    for (operation, subresource, object, old, expected) in [
        ("CREATE", "", broken.clone(), json!(null), Denied(422)),
        ("UPDATE", "", broken.clone(), webservice(&json!({"image": "a"})), Denied(422)),
        ("UPDATE", "", broken.clone(), broken.clone(), Allowed),
        (
            "UPDATE",
            "",
            json!({"spec": 7}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            Allowed,
        ),
        ("UPDATE", "", broken.clone(), json!(null), Denied(422)),
        ("UPDATE", "", broken.clone(), json!("text"), Denied(422)),
        ("UPDATE", "status", broken.clone(), broken.clone(), Allowed),
        ("UPDATE", "scale", json!({"kind": "Scale", "spec": {"replicas": 3}}), json!(null), Allowed),
        ("DELETE", "", json!(null), broken.clone(), Allowed),
        ("DELETE", "", json!(null), json!(null), Allowed),
        ("DELETE", "", broken.clone(), json!([]), Allowed),
        ("CONNECT", "proxy", json!({"path": "/"}), json!(null), Allowed),
        ("TELEPORT", "", broken.clone(), json!(null), Allowed),
        ("", "", broken.clone(), json!(null), Allowed),
        ("CREATE", "", json!(null), json!(null), Allowed),
    ] {
        let mut review = creation(&object);
        review["request"]["operation"] = json!(operation);
        review["request"]["subResource"] = json!(subresource);
        review["request"]["oldObject"] = old;
        cases.push(case(
            format!("{operation} of {subresource:?} with {object}"),
            review.to_string(),
            expected,
        ));
    }
    let mut other = creation(&json!({"kind": "ConfigMap", "data": {"a": "b"}}));
    other["request"]["kind"] = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    cases.push(case("another kind", other.to_string(), Allowed));
    cases
}

fn objects() -> Vec<Case> {
    let mut cases = Vec::new();
    for object in [
        "7",
        "true",
        "\"text\"",
        "[]",
        "{}",
        r#"{"spec": null}"#,
        r#"{"spec": []}"#,
        r#"{"spec": "x"}"#,
        r#"{"metadata": 7}"#,
    ] {
        cases.push(case(format!("the object {object}"), raw_object(object), Denied(422)));
    }
    for (member, values) in [
        (
            "image",
            r#"null | "" | "  " | 7 | true | [] | {} | "nginx:" | "lower/UPPER" | "a b" | "é" | "a@sha256:x""#,
        ),
        ("image", r#""nginx:1.27\u0000" | "\u0000" | "nginx:1.27\n" | ["nginx:1.27"] | {"name": "nginx"}"#),
        ("replicas", r"-1 | 1.5 | 1e10 | 2147483648 | 9007199254740993 | 18446744073709551616 | 1e308"),
        ("replicas", r#"-9223372036854775809 | "3" | true | [] | {}"#),
        ("tier", r#"7 | true | [] | {} | "" | "X" | "a.b" | "-a" | "a-" | "é""#),
        (
            "dependsOn",
            r#"7 | true | "x" | {} | [null] | [7] | ["x"] | [[]] | [{}] | [{"name": 7}] | [{"name": ""}]"#,
        ),
        ("dependsOn", r#"[{"name": "X"}] | [{"name": "checkout"}] | [{"name": "a"}, {"name": "a"}]"#),
        ("suspend", r#"7 | "true" | [] | {}"#),
    ] {
        for value in values.split(" | ") {
            let image = if member == "image" { "" } else { r#""image": "nginx:1.27", "# };
            let spec = format!(r#"{{{image}"{member}": {value}}}"#);
            cases.push(case(format!("{member} is {value}"), raw_spec(&spec), Denied(422)));
        }
    }
    cases
}

fn oddities() -> Vec<Case> {
    let spec = |spec: &str, expected| case(format!("the spec {spec:.80}"), raw_spec(spec), expected);
    let mut cases = vec![
        spec(r#"{"image": "nginx:1.27", "replicas": 3.0}"#, Denied(422)),
        spec(r#"{"image": "nginx:1.27", "replicas": 1e1}"#, Denied(422)),
        spec(r#"{"image": "nginx:1.27", "replicas": 2147483647}"#, Allowed),
        spec(r#"{"image": "nginx:1.27", "tier": null, "replicas": null, "dependsOn": null}"#, Allowed),
        spec(r#"{"image": "nginx:1.27", "image": ""}"#, Denied(422)),
        spec(r#"{"image": "", "image": "nginx:1.27"}"#, Allowed),
        spec(r#"{"\u0069mage": "nginx\u003a1.27"}"#, Allowed),
        spec(r#"{"image": "nginx:1.27", "replicas": 1e999}"#, Denied(400)),
        spec(r#"{"image": "nginx:1.27", "unknown": 1e999}"#, Allowed),
        spec(r#"{"image": "\ud800"}"#, Denied(400)),
        spec(r#"{"image": "nginx:1.27", "unknown": "\ud800"}"#, Allowed),
        spec(&format!(r#"{{"image": {}}}"#, nested(100)), Denied(422)),
        spec(&format!(r#"{{"image": {}}}"#, nested(100_000)), Denied(400)),
        spec(&format!(r#"{{"image": "nginx:1.27", "unknown": {}}}"#, nested(100_000)), Allowed),
        spec(&format!(r#"{{"image": "{}"}}"#, "x".repeat(1_000_000)), Denied(422)),
        spec(
            &format!(
                r#"{{"image": "nginx:1.27", "dependsOn": [{}]}}"#,
                vec![r#"{"name": "x"}"#; 10_000].join(",")
            ),
            Denied(422),
        ),
        spec(&format!(r#"{{"image": "nginx:1.27", "replicas": {}}}"#, "9".repeat(10_000)), Denied(400)),
        case(
            "finalizers of a wrong type",
            raw_object(r#"{"metadata": {"name": "a", "finalizers": "x"}, "spec": {"image": "a:1"}}"#),
            Allowed,
        ),
        case(
            "a generated name",
            raw_object(r#"{"metadata": {"generateName": "w-"}, "spec": {"image": "a:1"}}"#),
            Allowed,
        ),
        case("neither name nor metadata", raw_object(r#"{"spec": {"image": "a:1"}}"#), Allowed),
        case(
            "a new object that says it is on its way out",
            raw_object(r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}"#),
            Denied(422),
        ),
    ];
    let mut bytes = raw_spec(r#"{"image": "nginx:1.27", "unknown": "BYTES"}"#).into_bytes();
    replace(&mut bytes, b"BYTES", b"\xff\xfe\xc0");
    cases.push(case("an unknown field that is no UTF-8", bytes, Allowed));
    let mut bytes = raw_spec(r#"{"image": "BYTES"}"#).into_bytes();
    replace(&mut bytes, b"BYTES", b"\xff\xfe\xc0");
    cases.push(case("an image that is no UTF-8", bytes, Denied(400)));
    let mut bytes = request_with("uid", &json!("BYTES")).into_bytes();
    replace(&mut bytes, b"BYTES", b"\xff\xfe\xc0");
    cases.push(case("a uid that is no UTF-8", bytes, Unanswerable));
    cases
}

fn replace(bytes: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    let start = bytes.windows(old.len()).position(|window| window == old).unwrap();
    bytes.splice(start..start + old.len(), new.iter().copied());
}

/// What the answer says, after checking that the API server would understand it.
fn understand(case: &Case, reply: &Reply) -> Expected {
    let Case { what, body, .. } = case;
    if reply.status == 400 {
        let text = std::str::from_utf8(&reply.body).unwrap();
        assert!(text.starts_with("failed to "), "{what}: {text}");
        return Unanswerable;
    }
    assert_eq!(
        (reply.status.as_u16(), &reply.headers["content-type"]),
        (200, &"application/json".parse().unwrap()),
        "{what}"
    );
    let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")),
        "{what}"
    );
    let response = &answer["response"];
    if let Ok(review) = serde_json::from_slice::<Value>(body) {
        assert_eq!(response["uid"], review["request"]["uid"], "{what}");
        check_patch(what, response, &review["request"]["object"]);
    }
    if response["allowed"].as_bool().unwrap() {
        return Allowed;
    }
    let status = &response["status"];
    assert!(!status["message"].as_str().unwrap().is_empty(), "{what}: {answer}");
    Denied(u16::try_from(status["code"].as_u64().unwrap()).unwrap())
}

/// A patch must apply, and touch nothing but the three places that are ours.
fn check_patch(what: &str, response: &Value, object: &Value) {
    let Some(patch) = response.get("patch") else { return };
    assert_eq!(response["patchType"], "JSONPatch", "{what}");
    let patch = STANDARD.decode(patch.as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    for operation in &patch.0 {
        let place = operation.path().to_string();
        let ours = ["/spec/replicas", "/spec/tier", "/metadata/finalizers"]
            .iter()
            .any(|allowed| place.starts_with(allowed));
        assert!(ours, "{what}: {place}");
    }
    json_patch::patch(&mut object.clone(), &patch).unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[tokio::test]
async fn whatever_is_sent_the_answer_is_right_and_well_formed() {
    let served = Served::start().await;
    let mut client: Client = served.connect().await;
    let cases: Vec<_> = [no_json(), envelopes(), requests(), operations(), objects(), oddities()]
        .into_iter()
        .flatten()
        .collect();
    let mut failures = Vec::new();
    for case in &cases {
        let began = Instant::now();
        let validated = understand(case, &client.post(VALIDATE, case.body.clone()).await);
        if validated != case.expected {
            failures.push(format!("{}: expected {:?}, got {validated:?}", case.what, case.expected));
        }
        let mutated = understand(case, &client.post(MUTATE, case.body.clone()).await);
        let agreed = if case.expected == Unanswerable { Unanswerable } else { Allowed };
        assert_eq!(mutated, agreed, "{}", case.what);
        if began.elapsed() > 2 * HANG {
            // A busy machine may be slow a few times; what hangs always does so.
            let mut quickest = began.elapsed();
            for _ in 0..5 {
                let again = Instant::now();
                client.post(VALIDATE, case.body.clone()).await;
                quickest = quickest.min(again.elapsed());
            }
            if quickest > HANG {
                failures.push(format!("{}: an answer took {quickest:?}", case.what));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(cases.len() >= 200, "{} cases are left", cases.len());
    assert!(!served.metrics().await.contains(r#"code="500""#));
    assert_eq!(served.probe("/readyz").await.0, 200);
}
