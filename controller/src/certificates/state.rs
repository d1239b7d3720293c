//! The two Secrets and the registrations, read: from what is stored to what [`plan`](super::plan) decides on.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use webservice_certs::{Bundle, CERTIFICATE_FILE, Ca, KEY_FILE, Pair};

use super::plan::{State, Stored};
use super::secret::{CA_KEY, ROTATE_CA, ROTATE_LEAF, asks, field};
use crate::registration::Registration;

/// What is stored.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) ca: Option<Secret>,
    pub(super) leaf: Option<Secret>,
    pub(super) registrations: Vec<Registration>,
}

impl Found {
    /// What it means. `trusted_for`: see [`State::trusted_for`].
    pub(super) fn state(&self, trusted_for: Duration) -> State {
        let text = |secret: &Option<Secret>, key| field(secret.as_ref(), key).to_vec();
        let sources = [text(&self.ca, CERTIFICATE_FILE), text(&self.ca, CA_KEY), text(&self.leaf, CA_KEY)];
        State {
            ca: read_ca(self.ca.as_ref()),
            is_ca_asked: asks(self.ca.as_ref(), ROTATE_CA) || asks(self.leaf.as_ref(), ROTATE_CA),
            leaf: read_leaf(self.leaf.as_ref()),
            is_leaf_asked: asks(self.leaf.as_ref(), ROTATE_LEAF),
            known: Bundle::readable(&sources.join(&b'\n')),
            remembered: text(&self.ca, CA_KEY),
            registrations: self.registrations.iter().map(|found| found.bundles.clone()).collect(),
            trusted_for,
        }
    }

    /// The CA's certificate, as far as every registration that there is holds it.
    pub(super) fn trusted_ca(&self) -> Option<Bundle> {
        let ca = Bundle::readable(field(self.ca.as_ref(), CERTIFICATE_FILE));
        let mut published = self.registrations.iter().flat_map(|found| &found.bundles);
        published.all(|pem| Bundle::readable(pem).holds(&ca)).then_some(ca)
    }
}

fn read_ca(secret: Option<&Secret>) -> Result<Ca, String> {
    let text = |key| String::from_utf8_lossy(field(secret, key)).into_owned();
    secret.ok_or_else(none_yet)?;
    Ca::from_pem(&text(CERTIFICATE_FILE), &text(KEY_FILE)).map_err(|error| error.to_string())
}

fn read_leaf(secret: Option<&Secret>) -> Result<Stored, String> {
    secret.ok_or_else(none_yet)?;
    let chain = field(secret, CERTIFICATE_FILE);
    let pair = Pair::from_pem(chain, field(secret, KEY_FILE)).map_err(|error| error.to_string())?;
    Ok(Stored { chain: chain.to_vec(), validity: pair.validity() })
}

fn none_yet() -> String {
    "there is none yet".to_owned()
}
