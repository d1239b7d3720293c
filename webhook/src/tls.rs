//! How TLS is spoken with the API server.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use tokio_rustls::TlsAcceptor;
use webservice_certs::ServedCertificate;

use crate::clients::ClientVerifier;

/// TLS 1.3 and 1.2 with whatever certificate is presented at the time, for anybody or for whom `clients` lets in.
pub(crate) fn acceptor(
    certificate: ServedCertificate,
    clients: Option<ClientVerifier>,
) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::new(clients)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificate));
    // The API server calls Services over HTTP/1.1 only; where it would offer more, behaviour stays the same.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // It keeps connections and resumes none, and a resumed one would outlive its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
