//! As little of an HTTPS client as an API server needs to be to a webhook: one request at a time over HTTP/1.1. What it
//! sends was composed before, so that the load generator costs little.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longest answer. Those of a webhook are below 1 KiB.
const MAX_ANSWER: usize = 64 * 1024;

/// Whom to call.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    connector: TlsConnector,
}

impl Target {
    /// The server at `address`, which has a certificate for that IP address by the authority `ca` (PEM).
    pub fn new(address: SocketAddr, ca: &str) -> Result<Self> {
        Ok(Self { address, connector: TlsConnector::from(trusting(ca)?) })
    }

    /// Opens a connection, up to the end of the TLS handshake.
    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.with_context(|| format!("failed to connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let stream = self.connector.connect(name, stream).await.context("failed to agree on TLS")?;
        Ok(Connection { stream, received: Vec::with_capacity(4096) })
    }
}

/// TLS as an API server speaks it to webhooks, with the servers that an authority of the bundle `pem` vouches for.
pub(crate) fn trusting(pem: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(authority.context("failed to read an authority")?)?;
    }
    ensure!(!roots.is_empty(), "failed to find an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// A connection that is kept.
pub struct Connection {
    pub(crate) stream: TlsStream<TcpStream>,
    received: Vec<u8>,
}

impl Connection {
    /// Sends one request, head and body, and reads the answer, which must be a 200.
    pub async fn call(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await.context("failed to send a request")?;
        self.stream.flush().await.context("failed to send a request")?;
        let head = self.answer().await.context("failed to read an answer")?;
        ensure!(head.status == 200, "failed to be served: the answer is {}", self.text());
        Ok(())
    }

    /// Reads until the server closes the connection.
    pub async fn finish(mut self) -> Result<()> {
        let rest = self.stream.read(&mut [0]).await.context("failed to wait for the end of a connection")?;
        ensure!(rest == 0, "the server sends more than one answer");
        Ok(())
    }

    async fn answer(&mut self) -> io::Result<Head> {
        self.received.clear();
        let head = loop {
            if let Some(head) = Head::read(&self.received)? {
                break head;
            }
            self.receive().await?;
        };
        while self.received.len() < head.length + head.body {
            self.receive().await?;
        }
        Ok(head)
    }

    async fn receive(&mut self) -> io::Result<()> {
        if self.received.len() > MAX_ANSWER {
            return Err(io::Error::other("it is too long"));
        }
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }
}

/// What has to be known about an answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Of the head, in bytes, with the empty line.
    length: usize,
    /// Of what follows, in bytes.
    body: usize,
}

impl Head {
    /// `None` until it is complete.
    fn read(received: &[u8]) -> io::Result<Option<Self>> {
        const END: &[u8] = b"\r\n\r\n";
        let Some(end) = received.windows(END.len()).position(|bytes| bytes == END) else { return Ok(None) };
        let head = Self::parse(&received[..end], end + END.len());
        head.map(Some).ok_or_else(|| io::Error::other("it has no status or no content-length"))
    }

    fn parse(head: &[u8], length: usize) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let body = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        })?;
        Some(Self { status, length, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_status_and_lengths_once_it_is_complete() {
        let text = b"HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 12\r\n\r\nbody";
        assert_eq!(Head::read(&text[..text.len() - 6]).unwrap(), None);
        assert_eq!(Head::read(text).unwrap(), Some(Head { status: 200, length: 52, body: 12 }));
    }

    #[test]
    fn an_answer_of_unknown_length_is_an_error() {
        Head::read(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err();
        Head::read(b"garbage\r\n\r\n").unwrap_err();
    }
}
