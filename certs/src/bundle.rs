//! The CAs that clients trust at one time. While one CA follows another both are in it, so that no client meets a
//! server certificate it does not know.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use crate::x509::{self, ParseError};

/// Trusted CA certificates, newest first, none twice. As PEM it is the `caBundle` of a webhook configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle(Vec<CertificateDer<'static>>);

/// Why a text is not a trust bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Part of it cannot be read.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It holds more or less than the one CA that was to be added.
    #[error("failed to add a CA to the trust bundle: the text holds {found} certificates, not one")]
    NotOne {
        /// How many it holds.
        found: usize,
    },
}

impl Bundle {
    /// Reads a bundle back. Empty text is an empty bundle; a certificate that cannot be read is an error, because
    /// dropping it silently could drop the CA that a running server still depends on.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BundleError> {
        let mut bundle = Self::default();
        for certificate in x509::certificates(pem)? {
            if !bundle.0.contains(&certificate) {
                bundle.0.push(certificate);
            }
        }
        Ok(bundle)
    }

    /// The same bundle with `ca` (PEM, one certificate) in front and without those whose life is over at `now`.
    /// Adding the one that is in front already changes nothing else, so a pass over a stable state writes nothing.
    pub fn with(&self, ca: &[u8], now: Timestamp) -> Result<Self, BundleError> {
        let added = x509::certificates(ca)?;
        let [newest] = added.as_slice() else {
            return Err(BundleError::NotOne { found: added.len() });
        };
        let others = self.0.iter().filter(|other| *other != newest && !is_over(other, now));
        Ok(Self(std::iter::once(newest).chain(others).cloned().collect()))
    }

    /// The certificates as PEM, one after the other.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let sections: Vec<_> = self.0.iter().map(|der| pem::Pem::new("CERTIFICATE", der.to_vec())).collect();
        pem::encode_many_config(&sections, pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF))
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
    fn a_new_ca_goes_in_front_and_the_old_one_stays() {
        let (old, new) = (ca(100), ca(365));
        assert_eq!(bundle(&[&old]).with(new.as_bytes(), NOW).unwrap(), bundle(&[&new, &old]));
    }

    #[test]
    fn the_first_ca_makes_a_bundle_of_one() {
        let first = ca(365);
        assert_eq!(Bundle::default().with(first.as_bytes(), NOW).unwrap(), bundle(&[&first]));
    }

    #[test]
    fn an_expired_ca_is_dropped() {
        let (old, new) = (ca(1), ca(365));
        let tomorrow = NOW + SignedDuration::from_hours(25);
        assert_eq!(bundle(&[&old]).with(new.as_bytes(), tomorrow).unwrap(), bundle(&[&new]));
    }

    #[test]
    fn adding_the_present_ca_again_changes_nothing() {
        let (old, new) = (ca(100), ca(365));
        let both = bundle(&[&new, &old]);
        assert_eq!(both.with(new.as_bytes(), NOW).unwrap().to_pem(), both.to_pem());
    }

    #[test]
    fn an_old_ca_that_is_issued_from_again_moves_to_the_front() {
        let (old, new) = (ca(100), ca(365));
        assert_eq!(bundle(&[&new, &old]).with(old.as_bytes(), NOW).unwrap(), bundle(&[&old, &new]));
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
        assert!(matches!(Bundle::from_pem(text.as_bytes()), Err(BundleError::Parse(_))));
    }

    #[test]
    fn nothing_and_two_cas_cannot_be_added_as_one() {
        for (text, count) in [(String::new(), 0), (ca(1) + &ca(1), 2)] {
            let error = Bundle::default().with(text.as_bytes(), NOW).unwrap_err();
            assert_eq!(error, BundleError::NotOne { found: count });
        }
    }
}
