//! What the two Secrets hold.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use webservice_api::constants::{MANAGED_BY, MANAGED_BY_LABEL};
use webservice_certs::{Bundle, CERTIFICATE_FILE, Ca, IssueError, KEY_FILE, Validity};

use super::plan::Terms;

/// The key under which the CAs stand that vouch for a certificate.
pub(super) const CA_KEY: &str = "ca.crt";
/// The annotation by which a person asks for a new certificate. The write that brings it takes the annotation away.
pub const ROTATE: &str = "webservice.labhub.io/rotate";
/// Value of [`ROTATE`]: a new leaf. On the Secret of the leaf.
pub(super) const ROTATE_LEAF: &str = "leaf";
/// Value of [`ROTATE`]: a new CA, and then a leaf of it. On the Secret of either.
pub(super) const ROTATE_CA: &str = "ca";

/// Keys of a Secret and what they are to hold.
pub(super) type Fields = Vec<(&'static str, String)>;

/// A new CA, and what its Secret is to hold: with it all that is trusted besides.
pub(super) fn new_ca(
    terms: &Terms,
    known: &Bundle,
    now: Timestamp,
) -> Result<(Validity, Fields), IssueError> {
    let ca = Ca::create(Validity::lasting(terms.ca_lifetime, now))?;
    let trusted = Bundle::readable(ca.certificate_pem().as_bytes()).joined(known, now);
    let fields = vec![
        (CERTIFICATE_FILE, ca.certificate_pem().to_owned()),
        (KEY_FILE, ca.key_pem()),
        (CA_KEY, trusted.to_pem()),
    ];
    Ok((ca.validity(), fields))
}

/// A new leaf of `ca`, and what its Secret is to hold.
pub(super) fn new_leaf(terms: &Terms, ca: &Ca, now: Timestamp) -> Result<(Validity, Fields), IssueError> {
    let names: Vec<_> = terms.names().collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let leaf = ca.issue(&names, Validity::lasting(terms.leaf_lifetime, now))?;
    let fields = vec![
        (CERTIFICATE_FILE, leaf.certificate_pem().to_owned()),
        (KEY_FILE, leaf.key_pem().to_owned()),
        (CA_KEY, ca.certificate_pem().to_owned()),
    ];
    Ok((leaf.validity(), fields))
}

/// The Secret as it was seen, or a new one, with `fields` in it.
pub(super) fn with(seen: Option<Secret>, name: &str, fields: Fields) -> Secret {
    let mut secret = seen.unwrap_or_else(|| empty(name));
    if fields.iter().any(|(key, _)| *key == KEY_FILE) {
        secret.annotations_mut().remove(ROTATE);
    }
    let fields = fields.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into())));
    secret.data.get_or_insert_default().extend(fields);
    secret
}

fn empty(name: &str) -> Secret {
    let labels = [(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned())].into();
    Secret {
        metadata: ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() },
        type_: Some("kubernetes.io/tls".into()),
        ..Secret::default()
    }
}

/// The value under `key`, empty where there is none.
pub(super) fn field<'s>(secret: Option<&'s Secret>, key: &str) -> &'s [u8] {
    let data = secret.and_then(|secret| secret.data.as_ref());
    data.and_then(|data| data.get(key)).map_or(&[], |value| &value.0)
}

/// Whether a person asks for `what`.
pub(super) fn asks(secret: Option<&Secret>, what: &str) -> bool {
    secret.is_some_and(|secret| secret.annotations().get(ROTATE).is_some_and(|value| value == what))
}
