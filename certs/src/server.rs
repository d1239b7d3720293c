//! How a server presents its certificate.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;

use crate::reload::ServedCertificate;

/// TLS 1.3 and 1.2 with whatever certificate is presented at the time, for anybody or for whom `clients` lets in.
///
/// # Errors
/// The TLS library refuses.
pub fn server_config(
    certificate: ServedCertificate,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificate));
    // The API server calls Services over HTTP/1.1 only; where somebody would offer more, behaviour stays the same.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Our callers keep connections and resume none, and a resumed one would outlive its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
