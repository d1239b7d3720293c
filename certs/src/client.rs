//! Who may talk to a server: the authorities that vouch for its clients, and the names in a client's certificate.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use x509_parser::extensions::GeneralName;

use crate::bundle::Bundle;
use crate::x509;
use crate::x509::ParseError;

/// The authorities that vouch for clients.
#[derive(Clone, Debug)]
pub struct ClientAuthorities(Arc<dyn ClientCertVerifier>);

/// Why a text does not hold authorities.
#[derive(Debug, thiserror::Error)]
pub enum ClientCaError {
    /// Part of it cannot be read.
    #[error(transparent)]
    Bundle(#[from] ParseError),
    /// There is no certificate in it.
    #[error("failed to find a CA; the file must hold at least one certificate, PEM (\"BEGIN CERTIFICATE\")")]
    NoCertificate,
    /// The TLS library takes none of them, or not together.
    #[error("failed to use the CA: {0}")]
    Unusable(String),
}

impl ClientAuthorities {
    /// Reads CA certificates, PEM. Each of them counts, so that one can follow another.
    pub fn from_pem(pem: &[u8]) -> Result<Self, ClientCaError> {
        let bundle = Bundle::from_pem(pem)?;
        if bundle.certificates().is_empty() {
            return Err(ClientCaError::NoCertificate);
        }
        let unusable = |error: &dyn std::error::Error| ClientCaError::Unusable(error.to_string());
        let mut roots = RootCertStore::empty();
        for certificate in bundle.certificates() {
            roots.add(certificate.clone()).map_err(|error| unusable(&error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self(verifier.map_err(|error| unusable(&error))?))
    }

    /// Whether one of them vouches for a client's certificate at `now`, and for its use as such.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.verify_client_cert(certificate, intermediates, now)
    }
}

/// The names in a certificate: its common name, and the DNS names and URIs among its alternative names. None where it cannot
/// be read.
#[must_use]
pub fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = x509::parse(certificate) else { return Vec::new() };
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative =
        alternative.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::URI(name) => Some(*name),
            _ => None,
        });
    common.chain(alternative).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::{Ca, Validity};

    fn ca() -> Ca {
        Ca::create(Validity::lasting(SignedDuration::from_hours(1), Timestamp::now())).unwrap()
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    #[test]
    fn a_text_without_a_usable_ca_is_refused_with_a_remedy() {
        for (text, remedy) in [
            ("", "BEGIN CERTIFICATE"),
            ("no PEM", "BEGIN CERTIFICATE"),
            ("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n", "certificate 1"),
        ] {
            let error = ClientAuthorities::from_pem(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(remedy), "{error}");
        }
    }

    #[test]
    fn a_certificate_for_servers_is_no_clients() {
        let (ca, other) = (ca(), ca());
        let bundle = [ca.certificate_pem(), other.certificate_pem()].concat();
        let authorities = ClientAuthorities::from_pem(bundle.as_bytes()).unwrap();
        let life = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
        let leaf = der(ca.issue(&["webhook.test.svc"], life).unwrap().certificate_pem());
        authorities.verify(&leaf, &[], UnixTime::now()).unwrap_err();
    }

    #[test]
    fn the_common_name_and_the_alternative_names_are_its_names() {
        let life = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
        let leaf = ca().issue(&["a.svc", "127.0.0.1", "b.svc"], life).unwrap();
        assert_eq!(names(&der(leaf.certificate_pem())), ["webservice-webhook", "a.svc", "b.svc"]);
        assert_eq!(names(&CertificateDer::from(vec![1, 2, 3])), Vec::<String>::new());
    }
}
