//! The CAs that clients trust at one time. While one CA follows another both are in it, so that no client meets a
//! server certificate it does not know.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use crate::x509::{self, ParseError};

/// Most CAs of a joined bundle. Two are in use while one follows another; more only come of CAs that are replaced by hand
/// again and again.
pub const MAX_CAS: usize = 10;

/// Trusted CA certificates, newest first, none twice. As PEM it is the `caBundle` of a webhook configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle(Vec<CertificateDer<'static>>);

/// Why a client would refuse a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to verify the certificate for {name}: {reason}")]
pub struct Untrusted {
    /// The name that the client dials.
    pub name: String,
    /// What is wrong, in the TLS library's words.
    pub reason: String,
}

impl Bundle {
    /// Reads a bundle back. Empty text is an empty bundle; a certificate that cannot be read is an error, because
    /// dropping it silently could drop the CA that a running server still depends on.
    pub fn from_pem(pem: &[u8]) -> Result<Self, ParseError> {
        Ok(Self::default().followed_by(x509::certificates(pem)?))
    }

    /// The CAs that can be read in a text that people may have edited: what is broken is nobody's trust anchor, and what is
    /// written back instead heals it.
    #[must_use]
    pub fn readable(pem: &[u8]) -> Self {
        let sections = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        Self::default().followed_by(sections.filter(|der| x509::parse(der).is_ok()))
    }

    /// The same bundle with those of `others` behind that are not in it, and without those whose life is over at `now`. Others are
    /// taken up to [`MAX_CAS`] in all; what is in it already stays.
    #[must_use]
    pub fn joined(self, others: &Self, now: Timestamp) -> Self {
        let most = self.0.len().max(MAX_CAS);
        let mut joined = self.followed_by(others.0.iter().cloned());
        joined.0.retain(|der| !is_over(der, now));
        joined.0.truncate(most);
        joined
    }

    fn followed_by(mut self, others: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        for other in others {
            if !self.0.contains(&other) {
                self.0.push(other);
            }
        }
        self
    }

    /// Whether all of these CAs are in it.
    #[must_use]
    pub fn holds(&self, others: &Self) -> bool {
        others.0.iter().all(|other| self.0.contains(other))
    }

    /// What a client that trusts these CAs says at `now` of a server that presents `chain` (PEM, the server's own certificate
    /// first) under `name`: the same check as in a handshake, of names, lives, purposes and signatures.
    ///
    /// # Errors
    /// Why such a client would refuse it.
    pub fn vouches_for(&self, chain: &[u8], name: &str, now: Timestamp) -> Result<(), Untrusted> {
        let refused = |reason: String| Untrusted { name: name.to_owned(), reason };
        let chain = x509::certificates(chain).map_err(|error| refused(error.to_string()))?;
        let (leaf, issuers) = chain.split_first().ok_or_else(|| refused("there is none".to_owned()))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.0.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|_| refused("no CA is trusted".to_owned()))?;
        let host = ServerName::try_from(name).map_err(|error| refused(error.to_string()))?;
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let answer = verifier.verify_server_cert(leaf, issuers, &host, &[], now);
        answer.map(drop).map_err(|error| refused(error.to_string()))
    }

    /// The certificates as PEM, one after the other.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        let section =
            |der: &CertificateDer<'_>| pem::encode_config(&pem::Pem::new("CERTIFICATE", der.to_vec()), lines);
        self.0.iter().map(section).collect()
    }

    /// The certificates as DER, newest first: what a TLS client adds to its roots.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }
}

/// Every certificate of a bundle was parsed when it came in; one that would not parse is nobody's trust anchor.
fn is_over(der: &CertificateDer<'_>, now: Timestamp) -> bool {
    x509::parse(der).map_or(true, |certificate| x509::validity(&certificate).is_over(now))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::{Ca, Validity};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn ca(days: i64) -> String {
        let life = SignedDuration::from_hours(24 * days);
        Ca::create(Validity::lasting(life, NOW)).unwrap().certificate_pem().to_owned()
    }

    fn bundle(cas: &[&str]) -> Bundle {
        Bundle::from_pem(cas.concat().as_bytes()).unwrap()
    }

    #[test]
    fn a_ca_that_stands_twice_is_kept_once() {
        let one = ca(100);
        assert_eq!(bundle(&[&one, &one]).certificates().len(), 1);
    }

    #[test]
    fn a_bundle_written_and_read_back_is_the_same() {
        let both = bundle(&[&ca(100), &ca(365)]);
        assert_eq!(Bundle::from_pem(both.to_pem().as_bytes()).unwrap(), both);
        assert_eq!(Bundle::from_pem(b"").unwrap().to_pem(), "");
    }

    #[test]
    fn a_bundle_with_an_unreadable_ca_is_an_error() {
        let text = format!("{}-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n", ca(1));
        assert!(matches!(
            Bundle::from_pem(text.as_bytes()),
            Err(ParseError::Certificate { position: 2, .. })
        ));
    }

    #[test]
    fn what_can_be_read_of_an_edited_bundle_is_kept() {
        let (one, other) = (ca(100), ca(365));
        let text = format!(
            "hello\n{one}-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n{other}{one}"
        );
        assert_eq!(Bundle::readable(text.as_bytes()), bundle(&[&one, &other]));
        assert_eq!(Bundle::readable(b"\xff\x00"), Bundle::default());
    }

    #[test]
    fn joining_what_is_there_already_changes_nothing() {
        let (old, new) = (ca(100), ca(365));
        let both = bundle(&[&new, &old]);
        assert_eq!(bundle(&[&new]).joined(&both, NOW).joined(&both, NOW).to_pem(), both.to_pem());
    }

    #[test]
    fn joined_bundles_keep_their_order_and_lose_what_is_expired() {
        let (old, one, other) = (ca(1), ca(100), ca(365));
        let tomorrow = NOW + SignedDuration::from_hours(25);
        let joined = bundle(&[&one]).joined(&bundle(&[&old, &other, &one]), tomorrow);
        assert_eq!(joined, bundle(&[&one, &other]));
    }

    #[test]
    fn a_joined_bundle_has_a_bound() {
        let many: Vec<_> = (0..=MAX_CAS).map(|_| ca(1)).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let joined = bundle(&many[..1]).joined(&bundle(&many), NOW);
        assert_eq!(joined, bundle(&many[..MAX_CAS]));
    }

    #[test]
    fn a_bundle_of_many_cas_loses_none_and_takes_no_others() {
        let many: Vec<_> = (0..=MAX_CAS).map(|_| ca(1)).collect();
        let many = bundle(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.clone().joined(&bundle(&[&ca(1)]), NOW), many);
    }

    #[test]
    fn a_bundle_vouches_for_what_one_of_its_cas_has_signed_under_its_names_and_in_its_life() {
        let day = Validity::lasting(SignedDuration::from_hours(24), NOW);
        let (signer, other) = (Ca::create(day).unwrap(), ca(1));
        let leaf = signer.issue(&["webhook.shop.svc"], day).unwrap();
        let chain = leaf.certificate_pem().as_bytes();
        let both = bundle(&[&other, signer.certificate_pem()]);
        both.vouches_for(chain, "webhook.shop.svc", NOW).unwrap();
        both.vouches_for(chain, "webhook.other.svc", NOW).unwrap_err();
        both.vouches_for(chain, "webhook.shop.svc", NOW + SignedDuration::from_hours(25)).unwrap_err();
        both.vouches_for(b"", "webhook.shop.svc", NOW).unwrap_err();
        for untrusting in [bundle(&[&other]), Bundle::default()] {
            untrusting.vouches_for(chain, "webhook.shop.svc", NOW).unwrap_err();
        }
    }
}
