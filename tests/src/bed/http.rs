//! Requests over plain HTTP, for probes, metrics and the debug endpoints.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::eventually::DEADLINE;

/// The status code and body of `GET path`.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    request(address, "GET", path, "").await
}

/// The status code and body of the answer. In HTTP/1.0 (RFC 1945), where the end of the body is the end of the connection.
pub(super) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, String)> {
    let answer = timeout(DEADLINE, async {
        let mut stream = TcpStream::connect(address).await?;
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}", body.len());
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    });
    let answer = answer.await.with_context(|| format!("no answer from {address} to {method} {path}"))??;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its header")?;
    let code = head.split(' ').nth(1).context("an answer without a status code")?;
    Ok((code.parse()?, body.to_owned()))
}
