//! An answer leaves before the caller gives up.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{NAME, Served, VALIDATE, client_config, soon, tls};

/// What comes back for a request of this head, whose body never comes in whole.
async fn answer_to_half_a_body(served: &Served, head: &str) -> (String, Duration) {
    let mut stream = tls(served.addresses.https, client_config(&served.ca)).await.unwrap();
    let began = Instant::now();
    let request = format!("{head}\r\nhost: {NAME}\r\ncontent-length: 100\r\n\r\n{{");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let length = soon("an answer", stream.read(&mut answer)).await.unwrap();
    (String::from_utf8(answer[..length].to_vec()).unwrap(), began.elapsed())
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_answered_before_the_caller_gives_up() {
    let served = Served::start().await;
    let head = format!("POST {VALIDATE}?timeout=8s HTTP/1.1\r\ncontent-type: application/json");
    let (answer, took) = answer_to_half_a_body(&served, &head).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("within 7.2s"), "{answer}");
    assert!(!answer.contains("retry-after"), "{answer}");
    assert!(took < Duration::from_secs(8), "{took:?}");
}
