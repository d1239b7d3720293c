//! Admission reviews as a kube-apiserver 1.37 sends them, of any size, as whole HTTP requests.
//!
//! Order of the envelope's fields, headers and query are the API server's. What makes objects large in practice makes
//! them large here: the annotation with which `kubectl apply` remembers what it applied (JSON within a JSON string), and
//! managedFields (many small nested objects).

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use webservice_api::constants::{API_VERSION, FINALIZER, KIND, MUTATE_PATH, VALIDATE_PATH};

/// `kubectl create` of an object that says its image only, in a review of `size` bytes: first what is asked of the
/// mutating webhook, which has all its three changes to make, then what is asked of the validating one.
pub fn create(size: usize) -> Result<Vec<Vec<u8>>> {
    both("CREATE", size, |padding, complete| Objects { new: object(2, padding, complete), old: Value::Null })
}

/// The same with another image, as an update of a stored object.
pub fn update(size: usize) -> Result<Vec<Vec<u8>>> {
    both("UPDATE", size, |padding, _| Objects {
        new: object(2, &padding.half(), true),
        old: object(1, &padding.other_half(), true),
    })
}

/// The same requests, each the last one of its connection.
#[must_use]
pub fn closing(requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let close = |request: &Vec<u8>| {
        let line = request.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        [&request[..line], b"Connection: close\r\n", &request[line..]].concat()
    };
    requests.iter().map(close).collect()
}

/// The head of a request with a body of `length` bytes.
pub(super) fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path}?timeout=5s HTTP/1.1\r\nHost: webservice-operator-webhook.webservice-system.svc:443\r\n\
         User-Agent: kube-apiserver-admission\r\nContent-Length: {length}\r\nAccept: application/json, */*\r\n\
         Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
}

struct Objects {
    new: Value,
    old: Value,
}

fn both(operation: &str, size: usize, objects: impl Fn(&Padding, bool) -> Objects) -> Result<Vec<Vec<u8>>> {
    let questions = [(MUTATE_PATH, false), (VALIDATE_PATH, true)].into_iter();
    let requests = questions.map(|(path, complete)| {
        let body = sized(size, |padding| review(operation, &objects(padding, complete)))?;
        Ok((head(path, body.len()) + &body).into_bytes())
    });
    requests.collect()
}

/// A review of exactly `size` bytes.
fn sized(size: usize, write: impl Fn(&Padding) -> String) -> Result<String> {
    let smallest = write(&Padding::default()).len();
    let missing = size.checked_sub(smallest);
    let missing =
        missing.with_context(|| format!("failed to write a review of {size} bytes: it has {smallest}"))?;
    let fields = missing / 2 / Padding::FIELD;
    let without_note = write(&Padding { fields, note: 0 }).len();
    let body = write(&Padding { fields, note: size.saturating_sub(without_note) });
    ensure!(body.len() == size, "failed to write a review of {size} bytes: it has {}", body.len());
    Ok(body)
}

fn review(operation: &str, Objects { new, old }: &Objects) -> String {
    let mut options = operation.to_lowercase();
    options[..1].make_ascii_uppercase();
    let kind = format!(r#"{{"group":"apps.labhub.io","version":"v1","kind":"{KIND}"}}"#);
    let resource = r#"{"group":"apps.labhub.io","version":"v1","resource":"webservices"}"#;
    let user = r#"{"username":"kubernetes-admin","groups":["kubeadm:cluster-admins","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=2f1c6f7a0c9be5d0a4b3e58d9f4c1b7e6a0d3c2b1f5e4d7c8b9a0f1e2d3c4b5a"]}}"#;
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":"checkout","namespace":"shop","operation":"{operation}","userInfo":{user},"object":{new},"oldObject":{old},"dryRun":false,"options":{{"kind":"{options}Options","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-create","fieldValidation":"Strict"}}}}}}"#
    )
}

/// A WebService of the given generation; `complete` with what the mutating webhook adds.
fn object(generation: u32, padding: &Padding, complete: bool) -> Value {
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "creationTimestamp": "2026-11-29T12:00:00Z",
            "generation": generation,
            "managedFields": [{
                "apiVersion": API_VERSION,
                "fieldsType": "FieldsV1",
                "fieldsV1": padding.managed_fields(),
                "manager": "kubectl-create",
                "operation": "Update",
                "time": "2026-11-29T12:00:00Z",
            }],
            "name": "checkout",
            "namespace": "shop",
            "uid": "3a6a3a0e-7f0d-4a1c-9c53-5a4c1f6f2b11",
        },
        "spec": {"image": format!("registry.example.com:5000/shop/checkout:1.27.{generation}")},
        "status": {"conditions": [{
            "lastTransitionTime": "1970-01-01T00:00:00Z",
            "message": "Waiting for the controller",
            "reason": "Pending",
            "status": "Unknown",
            "type": "Ready",
        }]},
    });
    if padding.note > 0 {
        object["metadata"]["annotations"] = json!({(Padding::ANNOTATION): padding.annotation()});
    }
    if complete {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        object["spec"]["replicas"] = json!(1);
        object["spec"]["tier"] = json!("dev");
    }
    object
}

/// What makes an object larger.
#[derive(Clone, Copy, Debug, Default)]
struct Padding {
    /// Entries of managedFields.
    fields: usize,
    /// Bytes of an annotation, as they are in JSON, name and punctuation included.
    note: usize,
}

impl Padding {
    const ANNOTATION: &'static str = "kubectl.kubernetes.io/last-applied-configuration";
    /// Bytes of one entry, such as `"f:key-0000000":{},`.
    const FIELD: usize = 19;
    /// Bytes of `"annotations":{"NAME":""},`.
    const FRAME: usize = Self::ANNOTATION.len() + 22;

    fn half(self) -> Self {
        Self { fields: self.fields / 2, note: self.note / 2 }
    }

    fn other_half(self) -> Self {
        let half = self.half();
        Self { fields: self.fields - half.fields, note: self.note - half.note }
    }

    fn managed_fields(self) -> Value {
        let mut fields = json!({"f:spec": {".": {}, "f:image": {}}});
        for number in 0..self.fields {
            fields[format!("f:key-{number:07}")] = json!({});
        }
        fields
    }

    /// As much of `{"name":"value",…` as fits: each quotation mark is two bytes in JSON.
    fn annotation(self) -> String {
        const UNIT: &str = r#""name":"value","#;
        const UNIT_LENGTH: usize = UNIT.len() + 4;
        let length = self.note.saturating_sub(Self::FRAME);
        let mut text = UNIT.repeat(length / UNIT_LENGTH);
        let rest = length % UNIT_LENGTH;
        _ = write!(text, "{}", "x".repeat(rest));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(request: &[u8]) -> &[u8] {
        let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        &request[end + 4..]
    }

    fn parse(request: &[u8]) -> Value {
        serde_json::from_slice(body(request)).unwrap()
    }

    #[test]
    fn reviews_have_exactly_the_size_that_is_asked_for() {
        for size in [1_900, 2_900, 64_000, 1_000_000] {
            for request in create(size).unwrap().iter().chain(&update(size.max(2_900)).unwrap()) {
                let expected =
                    if parse(request)["request"]["operation"] == "CREATE" { size } else { size.max(2_900) };
                assert_eq!(body(request).len(), expected);
            }
        }
    }

    #[test]
    fn a_review_that_cannot_be_so_small_is_refused() {
        assert!(create(100).unwrap_err().to_string().contains("100 bytes"));
    }

    #[test]
    fn the_mutating_webhook_has_something_to_add_and_the_validating_one_sees_it() {
        let [mutate, validate] = &create(1_900).unwrap()[..] else { panic!("not two") };
        assert!(mutate.starts_with(b"POST /mutate-") && validate.starts_with(b"POST /validate-"));
        assert_eq!(parse(mutate)["request"]["object"]["spec"].as_object().unwrap().len(), 1);
        assert_eq!(parse(validate)["request"]["object"]["spec"]["tier"], "dev");
    }

    #[test]
    fn an_update_carries_both_objects_padded_alike() {
        let request = &parse(&update(64_000).unwrap()[0])["request"];
        let [new, old] = ["object", "oldObject"].map(|object| request[object].to_string().len());
        assert!(new.abs_diff(old) < 40, "{new} and {old}");
        assert_ne!(request["object"]["spec"]["image"], request["oldObject"]["spec"]["image"]);
    }

    #[test]
    fn a_closing_request_is_the_same_with_one_more_header() {
        let requests = create(1_900).unwrap();
        let closing = &closing(&requests)[0];
        assert_eq!(body(closing), body(&requests[0]));
        assert!(std::str::from_utf8(closing).unwrap().contains("HTTP/1.1\r\nConnection: close\r\nHost: "));
    }
}
