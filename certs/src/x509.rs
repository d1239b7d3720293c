//! The few facts that are read out of a certificate, and the conversions between its notion of time and ours.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::expiry::Validity;

/// Why PEM text is not a list of certificates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A section is cut off or its base64 is broken.
    #[error("failed to read PEM section {position}: {reason}")]
    Pem {
        /// Which certificate of the text, counted from 1.
        position: usize,
        /// What the decoder says of it.
        reason: String,
    },
    /// The section is well formed, its content is not a certificate.
    #[error("failed to read certificate {position}: {reason}")]
    Certificate {
        /// Which certificate of the text, counted from 1.
        position: usize,
        /// What the decoder says of it.
        reason: String,
    },
}

/// All certificates of a PEM text, in its order; sections of other kinds are skipped.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ParseError> {
    CertificateDer::pem_slice_iter(pem)
        .zip(1..)
        .map(|(section, position)| {
            let der = section.map_err(|error| ParseError::Pem { position, reason: error.to_string() })?;
            parse(&der).map_err(|reason| ParseError::Certificate { position, reason })?;
            Ok(der)
        })
        .collect()
}

/// The certificate's parts; the error is the decoder's own sentence.
pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    let (rest, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    if rest.is_empty() { Ok(certificate) } else { Err(format!("{} bytes follow it", rest.len())) }
}

/// The certificate's life. A bound outside the years that can be represented becomes the nearest that can.
pub(crate) fn validity(certificate: &X509Certificate<'_>) -> Validity {
    let bounds = certificate.validity();
    Validity {
        not_before: Timestamp::from_second(bounds.not_before.timestamp()).unwrap_or(Timestamp::MIN),
        not_after: Timestamp::from_second(bounds.not_after.timestamp()).unwrap_or(Timestamp::MAX),
    }
}

/// The same instant to the second, in the type that rcgen takes.
pub(crate) fn to_offset_date_time(instant: Timestamp) -> Result<OffsetDateTime, time::error::ComponentRange> {
    OffsetDateTime::from_unix_timestamp(instant.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ca;
    use jiff::SignedDuration;

    fn pem() -> String {
        let now = Timestamp::constant(1_800_000_000, 0);
        let ca = Ca::create(Validity::lasting(SignedDuration::from_hours(1), now)).unwrap();
        ca.certificate_pem().to_owned()
    }

    #[test]
    fn text_without_certificates_is_an_empty_list() {
        assert_eq!(certificates(b"").unwrap(), vec![]);
        assert_eq!(certificates(b"no PEM here\n").unwrap(), vec![]);
    }

    #[test]
    fn comments_and_windows_line_ends_between_certificates_are_skipped() {
        let text = format!("# first\r\n{}\r\n# second\r\n{}", pem().replace('\n', "\r\n"), pem());
        assert_eq!(certificates(text.as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn a_certificate_that_is_cut_off_is_named_by_its_position() {
        let text = format!("{}{}", pem(), &pem()[..200]);
        assert!(matches!(certificates(text.as_bytes()), Err(ParseError::Pem { position: 2, .. })));
    }

    #[test]
    fn a_section_that_holds_something_else_is_named_by_its_position() {
        let text = b"-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        assert!(matches!(certificates(text), Err(ParseError::Certificate { position: 1, .. })));
    }
}
