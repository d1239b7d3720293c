//! Callers that announce or send far more than any webhook should read.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Connection, Target};
use super::reviews::head;

/// What each would send: 10^9 bytes.
const LENGTH: usize = 1_000_000_000;
/// What it sends at a time.
const PIECE: usize = 64 * 1024;
/// In which time the server must have got rid of all of them.
const PATIENCE: Duration = Duration::from_mins(5);

/// So many callers at once, half of which say how much they are going to send. Gives how many bytes the server let them
/// send together. It is an error if one of them comes to the end of its body or is served.
pub async fn flood(target: &Target, callers: usize, path: &str) -> Result<usize> {
    let all = async {
        // All connections come first: none of the callers can be dealt with before the others are there.
        let connecting = (0..callers).map(|_| target.connect());
        let connections = futures::future::try_join_all(connecting).await?.into_iter().enumerate();
        let mut running: JoinSet<_> = connections
            .map(|(number, connection)| {
                let is_announced = number % 2 == 0;
                let head = if is_announced { head(path, LENGTH) } else { chunked(path) };
                send(connection, head, !is_announced)
            })
            .collect();
        let mut sent = 0;
        while let Some(result) = running.join_next().await {
            sent += result.context("failed to finish a caller")??;
        }
        Ok(sent)
    };
    timeout(PATIENCE, all).await.context("failed to be turned away in time")?
}

fn chunked(path: &str) -> String {
    head(path, 0).replace("Content-Length: 0", "Transfer-Encoding: chunked")
}

async fn send(Connection { mut stream, .. }: Connection, head: String, chunked: bool) -> Result<usize> {
    stream.write_all(head.as_bytes()).await.context("failed to send the head of a request")?;
    let piece = if chunked { format!("{PIECE:x}\r\n{}\r\n", " ".repeat(PIECE)) } else { " ".repeat(PIECE) };
    let mut sent = 0;
    // It ends with an error once the server has closed the connection, which is what it should do.
    while sent < LENGTH && stream.write_all(piece.as_bytes()).await.is_ok() {
        sent += PIECE;
    }
    ensure!(sent < LENGTH, "the server reads a body of {LENGTH} bytes to its end");
    let mut answer = Vec::new();
    // Whether an answer arrives depends on which of the two closed first; one that does must be a refusal.
    _ = stream.read_to_end(&mut answer).await;
    ensure!(!answer.starts_with(b"HTTP/1.1 2"), "the server accepts a body of {LENGTH} bytes");
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_request_announces_no_length() {
        let head = chunked("/path");
        assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
        assert!(!head.contains("Content-Length"), "{head}");
    }
}
