//! The webhook's own certificate, signed by the [`Ca`](crate::Ca).

use std::fmt;

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::ServerName;

use crate::ca::{IssueError, params};
use crate::expiry::Validity;

/// The common name of every leaf. Clients look at the alternative names only, which have no limit of 64 bytes.
const COMMON_NAME: &str = "webservice-webhook";

/// A server certificate with its key (ECDSA P-256).
pub struct Leaf {
    certificate_pem: String,
    key_pem: String,
    validity: Validity,
}

impl Leaf {
    pub(crate) fn issue(
        issuer: &Issuer<'_, KeyPair>,
        names: &[&str],
        validity: Validity,
    ) -> Result<Self, IssueError> {
        let key = KeyPair::generate().map_err(IssueError::Create)?;
        let certificate =
            leaf_params(names, validity)?.signed_by(&key, issuer).map_err(IssueError::Create)?;
        Ok(Self { certificate_pem: certificate.pem(), key_pem: key.serialize_pem(), validity })
    }

    /// The certificate, PEM: `tls.crt` of the Secret.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key, PEM in PKCS#8: `tls.key` of the Secret.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The certificate's life, which ends with the CA's at the latest.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").field("validity", &self.validity).finish_non_exhaustive()
    }
}

fn leaf_params(names: &[&str], validity: Validity) -> Result<CertificateParams, IssueError> {
    if names.is_empty() {
        return Err(IssueError::NoNames);
    }
    let mut params = params(validity)?;
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    params.subject_alt_names =
        names.iter().map(|name| alternative_name(name)).collect::<Result<Vec<_>, _>>()?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn alternative_name(name: &str) -> Result<SanType, IssueError> {
    let unusable = || IssueError::Name { name: name.to_owned() };
    match ServerName::try_from(name).map_err(|_| unusable())? {
        ServerName::DnsName(dns) => dns.as_ref().try_into().map(SanType::DnsName).map_err(|_| unusable()),
        ServerName::IpAddress(address) => Ok(SanType::IpAddress(address.into())),
        _ => Err(unusable()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::{SignedDuration, Timestamp};
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, UnixTime};

    use super::*;
    use crate::{Ca, x509};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
    const SERVICE: &str = "webservice-operator-webhook.webservice-system.svc";

    fn days(days: i64) -> Validity {
        Validity::lasting(SignedDuration::from_hours(24 * days), NOW)
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    /// What a TLS client with this CA says of the leaf, when it dials `name` at `instant`.
    fn verify(ca: &Ca, leaf: &Leaf, name: &str, instant: Timestamp) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(der(ca.certificate_pem())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let seconds = u64::try_from(instant.as_second()).unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(&der(leaf.certificate_pem()), &[], &name, &[], now).map(|_| ())
    }

    #[test]
    fn a_client_that_trusts_the_ca_accepts_the_leaf_under_each_of_its_names() {
        let ca = Ca::create(days(365)).unwrap();
        let leaf = ca.issue(&[SERVICE, "localhost", "127.0.0.1", "::1"], days(30)).unwrap();
        for name in [SERVICE, "localhost", "127.0.0.1", "::1"] {
            verify(&ca, &leaf, name, NOW).unwrap();
        }
    }

    #[test]
    fn a_client_refuses_the_leaf_under_another_name() {
        let ca = Ca::create(days(365)).unwrap();
        let leaf = ca.issue(&[SERVICE], days(30)).unwrap();
        verify(&ca, &leaf, "other.webservice-system.svc", NOW).unwrap_err();
    }

    #[test]
    fn a_client_that_trusts_another_ca_refuses_the_leaf() {
        let leaf = Ca::create(days(365)).unwrap().issue(&[SERVICE], days(30)).unwrap();
        verify(&Ca::create(days(365)).unwrap(), &leaf, SERVICE, NOW).unwrap_err();
    }

    #[test]
    fn a_client_refuses_the_leaf_after_its_life() {
        let ca = Ca::create(days(365)).unwrap();
        let leaf = ca.issue(&[SERVICE], days(30)).unwrap();
        verify(&ca, &leaf, SERVICE, NOW + SignedDuration::from_hours(24 * 31)).unwrap_err();
    }

    #[test]
    fn a_ca_read_back_issues_leaves_that_its_clients_accept() {
        let made = Ca::create(days(365)).unwrap();
        let read = Ca::from_pem(made.certificate_pem(), &made.key_pem()).unwrap();
        verify(&made, &read.issue(&[SERVICE], days(30)).unwrap(), SERVICE, NOW).unwrap();
    }

    #[test]
    fn a_leaf_never_outlives_its_ca() {
        let ca = Ca::create(days(10)).unwrap();
        let leaf = ca.issue(&[SERVICE], days(30)).unwrap();
        assert_eq!(leaf.validity().not_after, days(10).not_after);
        assert_eq!(x509::validity(&x509::parse(&der(leaf.certificate_pem())).unwrap()), leaf.validity());
    }

    #[test]
    fn the_longest_service_name_fits() {
        let label = "a".repeat(63);
        let name = format!("{label}.{label}.svc");
        let ca = Ca::create(days(365)).unwrap();
        verify(&ca, &ca.issue(&[&name], days(30)).unwrap(), &name, NOW).unwrap();
    }

    #[test]
    fn a_leaf_without_names_or_with_an_impossible_one_is_refused() {
        let ca = Ca::create(days(365)).unwrap();
        assert!(matches!(ca.issue(&[], days(30)), Err(IssueError::NoNames)));
        for name in ["", "white space", "ümlaut.svc", "a..b", "*.svc"] {
            let error = ca.issue(&[name], days(30)).unwrap_err();
            assert!(matches!(error, IssueError::Name { .. }), "{name:?}: {error}");
        }
    }

    #[test]
    fn the_key_is_not_printed_by_debug() {
        let leaf = Ca::create(days(365)).unwrap().issue(&[SERVICE], days(30)).unwrap();
        assert!(!format!("{leaf:?}").contains("PRIVATE"));
    }
}
