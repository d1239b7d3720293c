//! What the webhook reads of an `AdmissionReview` (`admission.k8s.io/v1`): a few borrowed fields, everything else is
//! skipped unread.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use webservice_api::admission::{Operation, Request};
use webservice_api::constants::{GROUP, KIND};
use webservice_api::draft::Draft;

use crate::json;

/// The one version that is spoken. It is echoed, as the protocol demands.
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of both question and answer.
pub const REVIEW_KIND: &str = "AdmissionReview";

/// A question that can be answered: it has a uid and speaks our version.
#[derive(Debug, Clone, PartialEq)]
pub struct Review<'a> {
    /// Identifies the question; the answer repeats it.
    pub uid: Cow<'a, str>,
    /// What is done to the object.
    pub operation: Operation,
    /// The subresource that is written, empty for the object itself.
    pub subresource: Cow<'a, str>,
    /// Whether it is about a `WebService` or the Scale of one. A registration that sends other kinds is mistaken, and they pass
    /// untouched.
    pub concerns_us: bool,
    /// Who asks for it, empty where nobody knows.
    pub user: Cow<'a, str>,
    /// Name of the object, empty while the API server has not generated one.
    pub name: Cow<'a, str>,
    /// Namespace of the object.
    pub namespace: Cow<'a, str>,
    /// The objects, or why they cannot be read although the rest can.
    pub objects: Result<Objects<'a>, String>,
}

/// The object as it would be stored, and as it is stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects<'a> {
    /// Absent on deletion.
    pub new: Option<Draft<'a>>,
    /// Absent on creation.
    pub old: Option<Draft<'a>>,
}

/// Why a body is not a question that could be answered: there is no uid to answer to, or the protocol is another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not JSON, or a field of the envelope is missing or has another type.
    #[error("failed to read the AdmissionReview: {0}")]
    Malformed(String),
    /// It is of another kind.
    #[error("failed to read the AdmissionReview: kind is {0:?}, not \"AdmissionReview\"")]
    Kind(String),
    /// It speaks another version.
    #[error(
        "failed to read the AdmissionReview: apiVersion is {0:?}; this webhook speaks \"admission.k8s.io/v1\" only"
    )]
    Version(String),
    /// It is an answer, or empty.
    #[error("failed to read the AdmissionReview: it has no request")]
    NoRequest,
    /// Nobody could tell to which question the answer belongs.
    #[error("failed to read the AdmissionReview: request.uid is empty")]
    NoUid,
}

impl<'a> Review<'a> {
    /// Reads a body once. Only if an object cannot be read, which well-formed requests never cause, it is read again
    /// without the objects: then there is a uid, and somebody gets a reason instead of a protocol error.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        match json::from_slice::<Envelope<'a, Draft<'a>>>(body) {
            Ok(envelope) => Self::new(envelope, |new, old| Ok(Objects { new, old })),
            Err(error) => {
                let envelope: Envelope<'a, IgnoredAny> =
                    json::from_slice(body).map_err(|error| DecodeError::Malformed(error.to_string()))?;
                Self::new(envelope, |_, _| Err(error.to_string()))
            }
        }
    }

    fn new<T>(
        envelope: Envelope<'a, T>,
        objects: impl FnOnce(Option<T>, Option<T>) -> Result<Objects<'a>, String>,
    ) -> Result<Self, DecodeError> {
        if envelope.kind != REVIEW_KIND {
            return Err(DecodeError::Kind(envelope.kind.into_owned()));
        }
        if envelope.api_version != API_VERSION {
            return Err(DecodeError::Version(envelope.api_version.into_owned()));
        }
        let request = envelope.request.ok_or(DecodeError::NoRequest)?;
        if request.uid.is_empty() {
            return Err(DecodeError::NoUid);
        }
        Ok(Self {
            uid: request.uid,
            operation: request.operation,
            subresource: Text::into_cow(request.sub_resource),
            concerns_us: request.kind.is_none_or(|kind| kind.concerns_us()),
            user: Text::into_cow(request.user_info.and_then(|user| user.username)),
            name: Text::into_cow(request.name),
            namespace: Text::into_cow(request.namespace),
            objects: objects(request.object, request.old_object),
        })
    }

    /// What the pure rules look at, where the objects could be read.
    pub fn request(&self) -> Result<Request<'_, 'a>, &str> {
        let objects = self.objects.as_ref().map_err(String::as_str)?;
        Ok(Request {
            operation: self.operation,
            subresource: &self.subresource,
            object: objects.new.as_ref(),
            old_object: objects.old.as_ref(),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
struct Envelope<'a, T> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<EnvelopeRequest<'a, T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
struct EnvelopeRequest<'a, T> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    kind: Option<GroupKind<'a>>,
    operation: Operation,
    #[serde(borrow)]
    sub_resource: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    user_info: Option<UserInfo<'a>>,
    object: Option<T>,
    old_object: Option<T>,
}

#[derive(Deserialize)]
struct GroupKind<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

impl GroupKind<'_> {
    fn concerns_us(&self) -> bool {
        matches!((&*self.group, &*self.kind), (GROUP, KIND) | ("autoscaling", "Scale"))
    }
}

#[derive(Deserialize)]
struct UserInfo<'a> {
    #[serde(borrow)]
    username: Option<Text<'a>>,
}

/// A string that is borrowed even inside an `Option`, where serde would copy a plain `Cow`.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Text<'a> {
    fn into_cow(text: Option<Self>) -> Cow<'a, str> {
        text.map_or(Cow::Borrowed(""), |text| text.0)
    }
}

#[cfg(test)]
mod agreement;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(request: &serde_json::Value) -> Vec<u8> {
        json!({"apiVersion": API_VERSION, "kind": REVIEW_KIND, "request": request}).to_string().into_bytes()
    }

    #[test]
    fn the_fields_that_decide_are_read_and_borrowed() {
        let body = body(&json!({
            "uid": "u-1",
            "kind": {"group": "apps.labhub.io", "version": "v1", "kind": "WebService"},
            "name": "checkout", "namespace": "shop", "operation": "UPDATE", "subResource": "status",
            "userInfo": {"username": "somebody"}, "options": {"any": [1, 2, {}]}, "dryRun": true,
            "object": {"spec": {"image": "nginx:2"}}, "oldObject": {"spec": {"image": "nginx:1"}},
        }));
        let review = Review::decode(&body).unwrap();
        let request = review.request().unwrap();
        assert_eq!((&*review.uid, &*review.name, &*review.namespace), ("u-1", "checkout", "shop"));
        assert_eq!((request.operation, request.subresource), (Operation::Update, "status"));
        assert_eq!(request.object.unwrap().spec.image.as_text(), Some("nginx:2"));
        assert_eq!(request.old_object.unwrap().spec.image.as_text(), Some("nginx:1"));
        assert!(matches!(review.name, Cow::Borrowed(_)) && matches!(review.uid, Cow::Borrowed(_)));
    }

    #[test]
    fn absent_and_null_fields_are_the_same() {
        let absent = body(&json!({"uid": "u", "operation": "DELETE"}));
        let null = body(&json!({
            "uid": "u", "operation": "DELETE", "kind": null, "name": null, "namespace": null, "subResource": null,
            "object": null, "oldObject": null,
        }));
        assert_eq!(Review::decode(&absent).unwrap(), Review::decode(&null).unwrap());
    }

    #[test]
    fn another_kind_does_not_concern_us() {
        for kind in [json!({"group": "", "kind": "ConfigMap"}), json!({"kind": "WebService"})] {
            let body = body(&json!({"uid": "u", "operation": "CREATE", "kind": kind}));
            assert!(!Review::decode(&body).unwrap().concerns_us, "{kind}");
        }
    }

    #[test]
    fn an_operation_of_tomorrow_is_some_other_operation() {
        let body = body(&json!({"uid": "u", "operation": "TELEPORT"}));
        assert_eq!(Review::decode(&body).unwrap().operation, Operation::Other);
    }

    #[test]
    fn an_object_that_cannot_be_read_leaves_the_question_answerable() {
        let body = br#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "CREATE", "object": {"spec": {"replicas": 1e999}}}}"#;
        let review = Review::decode(body).unwrap();
        assert_eq!(review.uid, "u");
        assert!(review.request().unwrap_err().contains("number out of range"));
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let body =
            br#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": null}"#;
        assert_eq!(
            Review::decode(body).unwrap_err(),
            DecodeError::Version("admission.k8s.io/v1beta1".to_owned())
        );
    }

    #[test]
    fn a_question_without_a_uid_cannot_be_answered() {
        assert_eq!(Review::decode(&body(&json!(null))).unwrap_err(), DecodeError::NoRequest);
        let empty = body(&json!({"uid": "", "operation": "CREATE"}));
        assert_eq!(Review::decode(&empty).unwrap_err(), DecodeError::NoUid);
        let number = body(&json!({"uid": 7, "operation": "CREATE"}));
        assert!(matches!(Review::decode(&number).unwrap_err(), DecodeError::Malformed(_)));
    }
}
