//! A certificate chain and its private key, checked before a server presents them.

use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};

use crate::expiry::Validity;
use crate::x509::{self, ParseError};

/// A chain and a key that belong together. Whether they are still valid is for the holder to judge, with the time.
#[derive(Debug, Clone)]
pub struct Pair {
    certified_key: Arc<CertifiedKey>,
    validity: Validity,
    serial: String,
}

/// Why a chain and a key cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The certificate file holds no certificate.
    #[error(
        "failed to find a certificate in tls.crt; it must hold the server's certificate, PEM (\"BEGIN CERTIFICATE\")"
    )]
    NoCertificate,
    /// The certificate file cannot be read.
    #[error("failed to read tls.crt: {0}")]
    Certificate(#[from] ParseError),
    /// The key file holds no private key.
    #[error("failed to find a private key in tls.key; it must hold one, PEM (\"BEGIN PRIVATE KEY\")")]
    NoKey,
    /// The key file is cut off or its base64 is broken.
    #[error("failed to read tls.key: {0}")]
    Key(String),
    /// The key needs a password, which nobody could type here.
    #[error(
        "failed to read tls.key: it is encrypted; store it without a password (openssl pkey -in tls.key)"
    )]
    EncryptedKey,
    /// The key is of a kind that the TLS library does not sign with.
    #[error(
        "failed to use the key of tls.key: it must be ECDSA P-256 or P-384, RSA of at least 2048 bits, or Ed25519, in PKCS#8, PKCS#1 or SEC1"
    )]
    UnsupportedKey,
    /// The key is right, its certificate is not the first one.
    #[error(
        "failed to use tls.crt: the key of tls.key belongs to certificate {position}; the server's own certificate must come first, its issuers after it"
    )]
    WrongOrder {
        /// Where the server's certificate stands, counted from 1.
        position: usize,
    },
    /// The files come from two different certificates.
    #[error(
        "failed to use tls.crt with tls.key: the key belongs to another certificate; replace both files together"
    )]
    KeyMismatch,
}

impl Pair {
    /// Reads a chain (the server's own certificate first) and its key, both PEM.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = x509::certificates(chain)?;
        let Some(leaf) = chain.first() else {
            return Err(PairError::NoCertificate);
        };
        let key = signing_key(key)?;
        check_order(&chain, &*key)?;

        let parsed = x509::parse(leaf).map_err(|reason| ParseError::Certificate { position: 1, reason })?;
        let (validity, serial) = (x509::validity(&parsed), parsed.raw_serial_as_string());
        Ok(Self { certified_key: Arc::new(CertifiedKey::new(chain, key)), validity, serial })
    }

    /// What rustls presents in a handshake.
    #[must_use]
    pub fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.certified_key
    }

    /// Life of the server's own certificate.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Serial number of the server's own certificate, hexadecimal with colons as openssl prints it.
    #[must_use]
    pub fn serial(&self) -> &str {
        &self.serial
    }
}

fn signing_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, PairError> {
    let der = PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        _ if is_encrypted(pem) => PairError::EncryptedKey,
        pem::Error::NoItemsFound => PairError::NoKey,
        other => PairError::Key(other.to_string()),
    })?;
    rustls::crypto::ring::sign::any_supported_type(&der).map_err(|_| PairError::UnsupportedKey)
}

/// Two forms are about: "BEGIN ENCRYPTED PRIVATE KEY", and the older "Proc-Type: 4,ENCRYPTED" below an ordinary label.
fn is_encrypted(pem: &[u8]) -> bool {
    pem.windows(b"ENCRYPTED".len()).any(|window| window == b"ENCRYPTED")
}

/// The key must be the first certificate's. Where it is a later one's, the error says so: chains are often reversed.
fn check_order(chain: &[CertificateDer<'static>], key: &dyn SigningKey) -> Result<(), PairError> {
    let public_key = key.public_key();
    let owner = chain.iter().position(|der| {
        x509::parse(der).is_ok_and(|certificate| public_key.as_deref() == Some(certificate.public_key().raw))
    });
    match owner {
        Some(0) => Ok(()),
        Some(later) => Err(PairError::WrongOrder { position: later + 1 }),
        None => Err(PairError::KeyMismatch),
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use rcgen::KeyPair;
    use rstest::rstest;

    use super::*;
    use crate::{Ca, Leaf};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    macro_rules! key {
        ($name:literal) => {
            include_str!(concat!("../tests/keys/", $name, ".pem"))
        };
    }

    fn day() -> Validity {
        Validity::lasting(SignedDuration::from_hours(24), NOW)
    }

    fn ca() -> Ca {
        Ca::create(day()).unwrap()
    }

    fn leaf(ca: &Ca) -> Leaf {
        ca.issue(&["webhook.test.svc"], day()).unwrap()
    }

    fn load(chain: &str, key: &str) -> Result<Pair, PairError> {
        Pair::from_pem(chain.as_bytes(), key.as_bytes())
    }

    /// A certificate for a key of any kind.
    fn self_signed(pkcs8: &str) -> String {
        let key = KeyPair::from_pem(pkcs8).unwrap();
        rcgen::CertificateParams::new(vec!["webhook.test.svc".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap()
            .pem()
    }

    #[rstest]
    #[case::rsa_pkcs8(key!("rsa-2048.pkcs8"), key!("rsa-2048.pkcs8"))]
    #[case::rsa_pkcs1(key!("rsa-2048.pkcs8"), key!("rsa-2048.pkcs1"))]
    #[case::p256_pkcs8(key!("p256.pkcs8"), key!("p256.pkcs8"))]
    #[case::p256_sec1(key!("p256.pkcs8"), key!("p256.sec1"))]
    #[case::p384_pkcs8(key!("p384.pkcs8"), key!("p384.pkcs8"))]
    #[case::p384_sec1(key!("p384.pkcs8"), key!("p384.sec1"))]
    #[case::ed25519_pkcs8(key!("ed25519.pkcs8"), key!("ed25519.pkcs8"))]
    fn a_key_of_every_common_kind_and_encoding_loads(#[case] certified: &str, #[case] stored: &str) {
        load(&self_signed(certified), stored).unwrap();
    }

    #[test]
    fn the_parameters_that_openssl_writes_before_a_key_are_skipped() {
        let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        load(&self_signed(key!("p256.pkcs8")), &format!("{parameters}{}", key!("p256.sec1"))).unwrap();
    }

    #[test]
    fn a_pair_knows_the_life_and_the_serial_of_its_leaf() {
        let ca = ca();
        let leaf = leaf(&ca);
        let chain = format!("{}{}", leaf.certificate_pem(), ca.certificate_pem());
        let pair = load(&chain, leaf.key_pem()).unwrap();
        assert_eq!(pair.validity(), leaf.validity());
        assert_eq!(pair.certified_key().cert.len(), 2);
        assert!(
            pair.serial().split(':').all(|byte| u8::from_str_radix(byte, 16).is_ok()),
            "{}",
            pair.serial()
        );
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let ca = ca();
        assert_eq!(
            load(leaf(&ca).certificate_pem(), leaf(&ca).key_pem()).unwrap_err(),
            PairError::KeyMismatch
        );
    }

    #[test]
    fn a_chain_that_begins_with_the_issuer_is_refused_with_the_leafs_place() {
        let ca = ca();
        let leaf = leaf(&ca);
        let chain = format!("{}{}", ca.certificate_pem(), leaf.certificate_pem());
        assert_eq!(load(&chain, leaf.key_pem()).unwrap_err(), PairError::WrongOrder { position: 2 });
    }

    #[rstest]
    #[case::empty_files("", "", PairError::NoCertificate)]
    #[case::key_in_the_certificates_place(key!("p256.pkcs8"), key!("p256.pkcs8"), PairError::NoCertificate)]
    #[case::empty_key(&self_signed(key!("p256.pkcs8")), "", PairError::NoKey)]
    #[case::certificate_in_the_keys_place(&self_signed(key!("p256.pkcs8")), &self_signed(key!("p256.pkcs8")), PairError::NoKey)]
    #[case::encrypted_pkcs8(&self_signed(key!("p256.pkcs8")), key!("p256.encrypted"), PairError::EncryptedKey)]
    #[case::encrypted_pkcs1(&self_signed(key!("rsa-2048.pkcs8")), key!("rsa-2048.encrypted"), PairError::EncryptedKey)]
    #[case::p521(&self_signed(key!("p256.pkcs8")), key!("p521.pkcs8"), PairError::UnsupportedKey)]
    fn a_pair_that_cannot_be_served_is_refused_by_what_is_wrong_with_it(
        #[case] chain: &str,
        #[case] key: &str,
        #[case] error: PairError,
    ) {
        assert_eq!(load(chain, key).unwrap_err(), error);
    }

    #[test]
    fn a_file_cut_off_at_any_line_is_an_error() {
        let ca = ca();
        let leaf = leaf(&ca);
        for lines in 0..leaf.certificate_pem().lines().count() {
            let cut: Vec<_> = leaf.certificate_pem().lines().take(lines).collect();
            load(&cut.join("\n"), leaf.key_pem()).unwrap_err();
        }
        for lines in 0..leaf.key_pem().lines().count() {
            let cut: Vec<_> = leaf.key_pem().lines().take(lines).collect();
            load(leaf.certificate_pem(), &cut.join("\n")).unwrap_err();
        }
    }

    #[test]
    fn binary_garbage_is_an_error() {
        let garbage: Vec<u8> = (0..=255).cycle().take(4096).collect();
        assert_eq!(Pair::from_pem(&garbage, &garbage).unwrap_err(), PairError::NoCertificate);
    }
}
