//! A stop that loses no request.

use std::time::{Duration, Instant};

use axum::http::header::CONNECTION;
use serde_json::json;

use crate::support::{Client, MUTATE, Served, client_config, creation, soon, webservice};

fn review() -> String {
    creation(&webservice(&json!({"image": "nginx:1.27"}))).to_string()
}

#[tokio::test]
async fn during_the_lame_duck_connections_are_kept_and_new_ones_taken() {
    let served = Served::start_with(&["--shutdown-lame-duck=1h"]).await;
    let mut kept = served.connect().await;
    served.shutdown.cancel();
    served.await_readyz(503).await;
    for _ in 0..2 {
        assert!(!kept.post(MUTATE, review()).await.headers.contains_key(CONNECTION));
    }
    assert_eq!(served.connect().await.post(MUTATE, review()).await.status, 200);
    served.task.abort();
}

#[tokio::test]
async fn after_it_an_answer_closes_its_connection_and_the_last_one_ends_the_process() {
    let served = Served::start_with(&["--shutdown-grace=1h"]).await;
    let mut kept = served.connect().await;
    served.shutdown.cancel();
    let told = async { while !kept.post(MUTATE, review()).await.headers.contains_key(CONNECTION) {} };
    soon("an answer that closes the connection", told).await;
    soon("the end", served.task).await.unwrap();
    kept.try_post(MUTATE, review()).await.unwrap_err();
}

#[tokio::test]
async fn unused_connections_do_not_hold_the_process_up() {
    let served = Served::start_with(&["--shutdown-grace=1h"]).await;
    let _unused = [served.connect().await, served.connect().await];
    served.stop().await;
}

#[tokio::test]
async fn the_grace_time_bounds_the_stop() {
    let served = Served::start_with(&["--shutdown-grace=200ms"]).await;
    let mut stream = crate::support::tls(served.addresses.https, client_config(&served.ca)).await.unwrap();
    // A header that never ends would be given up only after 10 s.
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"POST / HTTP/1.1\r\n").await.unwrap();
    let began = Instant::now();
    served.stop().await;
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

#[tokio::test]
async fn every_review_sent_during_the_stop_is_answered() {
    let served = Served::start_with(&["--shutdown-lame-duck=100ms", "--shutdown-grace=300ms"]).await;
    let callers: Vec<_> = (0..5)
        .map(|caller| {
            let (address, config) = (served.addresses.https, client_config(&served.ca));
            tokio::spawn(call_until_refused(address, config, Duration::from_millis(caller)))
        })
        .collect();
    soon("load", async {
        while !served.metrics().await.contains(r#"code="200"} 2"#) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    served.stop().await;
    for caller in callers {
        assert!(soon("the caller's end", caller).await.unwrap() > 0);
    }
}

/// Calls with pauses as the API server does: a connection is used again unless the last answer said that it closes.
/// Ends when nobody listens any more; fails the test when a request gets no answer.
async fn call_until_refused(
    address: std::net::SocketAddr,
    config: rustls::ClientConfig,
    pause: Duration,
) -> usize {
    let mut answered = 0;
    while let Ok(mut client) = Client::connect(address, config.clone()).await {
        loop {
            let reply = client.try_post(MUTATE, review()).await.unwrap();
            assert_eq!(reply.status, 200);
            answered += 1;
            if reply.headers.contains_key(CONNECTION) {
                break;
            }
            tokio::time::sleep(pause).await;
        }
    }
    answered
}
