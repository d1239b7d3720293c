//! The certificate authority that vouches for the webhook: made once, kept in a Secret, read back to issue leaves.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::expiry::Validity;
use crate::leaf::Leaf;
use crate::x509;

/// The common name of every CA made here. It is a constant because names of releases and namespaces do not fit into
/// the 64 bytes that X.520 allows; the key identifiers tell two CAs apart.
pub const COMMON_NAME: &str = "webservice-webhook-ca";

/// A certificate authority with its key (ECDSA P-256). It signs leaves only, never another CA.
#[derive(Debug)]
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    validity: Validity,
}

/// Why a CA could not be made or read, or could not issue.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// A bound of the life lies outside the years a certificate can carry.
    #[error("failed to represent the validity in a certificate")]
    Validity(#[source] time::error::ComponentRange),
    /// A leaf without names would be refused by every client.
    #[error("failed to issue a certificate without names; give the Service's DNS names")]
    NoNames,
    /// A name that no client could connect to.
    #[error("failed to issue a certificate for {name:?}: it is neither a DNS name nor an IP address")]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// The stored certificate cannot be read.
    #[error("failed to read the CA's certificate: {0}")]
    Certificate(String),
    /// The stored certificate belongs to a server, not to a CA.
    #[error("failed to use the certificate as a CA: its basic constraints do not say CA")]
    NotACa,
    /// The stored key cannot be read.
    #[error("failed to read the CA's key; it must be PKCS#8 (\"BEGIN PRIVATE KEY\")")]
    Key(#[source] rcgen::Error),
    /// Certificate and key were not made together.
    #[error("failed to use the CA: its key belongs to another certificate")]
    KeyMismatch,
    /// The cryptographic library refused.
    #[error("failed to create the certificate")]
    Create(#[source] rcgen::Error),
}

impl Ca {
    /// Makes a CA with a new key and a self-signed certificate of the given life.
    pub fn create(validity: Validity) -> Result<Self, IssueError> {
        let mut params = params(validity)?;
        params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];

        let key = KeyPair::generate().map_err(IssueError::Create)?;
        let certificate = params.self_signed(&key).map_err(IssueError::Create)?;
        Self::new(certificate.der(), certificate.pem(), key)
    }

    /// Reads a CA back from what [`Self::certificate_pem`] and [`Self::key_pem`] gave. Whether it is still valid is
    /// for [`crate::expiry::decide`] to say.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, IssueError> {
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| IssueError::Certificate(error.to_string()))?;
        let key = KeyPair::from_pem(key_pem).map_err(IssueError::Key)?;
        Self::new(&der, certificate_pem.to_owned(), key)
    }

    fn new(der: &CertificateDer<'_>, certificate_pem: String, key: KeyPair) -> Result<Self, IssueError> {
        let certificate = x509::parse(der).map_err(IssueError::Certificate)?;
        if !certificate.is_ca() {
            return Err(IssueError::NotACa);
        }
        if certificate.public_key().raw != key.subject_public_key_info() {
            return Err(IssueError::KeyMismatch);
        }
        let validity = x509::validity(&certificate);
        let issuer = Issuer::from_ca_cert_der(der, key).map_err(IssueError::Create)?;
        Ok(Self { issuer, certificate_pem, validity })
    }

    /// Issues a server certificate with a new key for `names`: DNS names and IP addresses, as clients will dial them.
    /// It never outlives the CA: the end of `validity` is cut to the CA's own.
    pub fn issue(&self, names: &[&str], validity: Validity) -> Result<Leaf, IssueError> {
        let not_after = validity.not_after.min(self.validity.not_after);
        Leaf::issue(&self.issuer, names, Validity { not_after, ..validity })
    }

    /// The certificate, PEM: what clients are given to trust.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key, PEM in PKCS#8: for the Secret and for nothing else.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The certificate's life.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }
}

/// Parameters of a certificate with the given life and neither subject nor names.
pub(crate) fn params(validity: Validity) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = x509::to_offset_date_time(validity.not_before).map_err(IssueError::Validity)?;
    params.not_after = x509::to_offset_date_time(validity.not_after).map_err(IssueError::Validity)?;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::{SignedDuration, Timestamp};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn year() -> Validity {
        Validity::lasting(SignedDuration::from_hours(24 * 365), NOW)
    }

    #[test]
    fn a_ca_has_the_life_it_was_given() {
        assert_eq!(Ca::create(year()).unwrap().validity(), year());
    }

    #[test]
    fn a_ca_read_back_is_the_same_ca() {
        let ca = Ca::create(year()).unwrap();
        let read = Ca::from_pem(ca.certificate_pem(), &ca.key_pem()).unwrap();
        assert_eq!(read.certificate_pem(), ca.certificate_pem());
        assert_eq!(read.key_pem(), ca.key_pem());
        assert_eq!(read.validity(), ca.validity());
    }

    #[test]
    fn a_ca_says_that_it_is_one_and_signs_leaves_only() {
        let ca = Ca::create(year()).unwrap();
        let der = CertificateDer::from_pem_slice(ca.certificate_pem().as_bytes()).unwrap();
        let certificate = x509::parse(&der).unwrap();
        let constraints = certificate.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(0));
        assert!(certificate.key_usage().unwrap().unwrap().value.key_cert_sign());
    }

    #[test]
    fn two_cas_share_a_name_and_differ_in_their_key() {
        let (one, other) = (Ca::create(year()).unwrap(), Ca::create(year()).unwrap());
        assert_ne!(one.key_pem(), other.key_pem());
        assert_ne!(one.certificate_pem(), other.certificate_pem());
    }

    #[test]
    fn a_ca_with_the_key_of_another_is_refused() {
        let (one, other) = (Ca::create(year()).unwrap(), Ca::create(year()).unwrap());
        let error = Ca::from_pem(one.certificate_pem(), &other.key_pem()).unwrap_err();
        assert!(matches!(error, IssueError::KeyMismatch), "{error}");
    }

    #[test]
    fn a_leaf_is_refused_as_a_ca() {
        let leaf = Ca::create(year()).unwrap().issue(&["a.b.svc"], year()).unwrap();
        let error = Ca::from_pem(leaf.certificate_pem(), leaf.key_pem()).unwrap_err();
        assert!(matches!(error, IssueError::NotACa), "{error}");
    }

    #[test]
    fn an_empty_or_garbled_secret_is_refused_by_what_is_wrong_with_it() {
        let ca = Ca::create(year()).unwrap();
        let key = ca.key_pem();
        for (certificate, key, wrong) in [
            ("", "", "certificate"),
            ("garbage", &*key, "certificate"),
            (ca.certificate_pem(), "garbage", "key"),
        ] {
            let error = Ca::from_pem(certificate, key).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn the_key_is_not_printed_by_debug() {
        let ca = Ca::create(year()).unwrap();
        let secret = ca.key_pem().lines().nth(1).unwrap().to_owned();
        assert!(!format!("{ca:?}").contains(&secret));
    }
}
