//! Who may talk to the webhook, where that is asked: whoever a CA vouches for, under one of the expected names.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webservice_certs::{ClientAuthorities, names};
use webservice_ops::latest::Latest;

/// Checks clients' certificates against whatever CA is in force at the time. Connections that are open when it changes go on.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    authorities: Latest<ClientAuthorities>,
    /// Empty where any name will do.
    names: Vec<String>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    pub(crate) fn new(authorities: Latest<ClientAuthorities>, names: &[String]) -> Self {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Self { authorities, names: names.to_vec(), algorithms }
    }

    fn check_name(&self, found: &[String]) -> Result<(), Error> {
        if self.names.is_empty() || found.iter().any(|name| self.names.contains(name)) {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    /// No hints: what they would say may change, and the API server has one certificate per server anyway.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let authorities = self.authorities.get().ok_or(CertificateError::UnknownIssuer);
        let verified = authorities?.verify(certificate, intermediates, now);
        let found = names(certificate);
        verified.and_then(|verified| self.check_name(&found).map(|()| verified)).inspect_err(|error| {
            tracing::warn!(names = ?found, expected = ?self.names, %error, "refused a client's certificate");
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// [`ClientAuthorities::from_pem`] for a file that is read again and again.
pub(crate) fn parse(pem: &[u8]) -> Result<ClientAuthorities, String> {
    ClientAuthorities::from_pem(pem).map_err(|error| error.to_string())
}
