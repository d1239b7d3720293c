//! Callers that take more than their share, or speak another language.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use http_body_util::Full;
use rustls::ClientConfig;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{MUTATE, NAME, Served, VALIDATE, client_config, creation, post, soon, tls, webservice};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn a_review_of_7_mib_is_read_and_a_longer_one_is_not() {
    let served = Served::start().await;
    let mut review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    let rest = 7 * MIB - review.to_string().len() - r#","pad":"""#.len();
    review["request"]["pad"] = json!("x".repeat(rest));
    let body = review.to_string();
    assert_eq!(body.len(), 7 * MIB);
    let mut client = served.connect().await;
    assert_eq!(client.post(VALIDATE, body.clone()).await.status, 200);
    let reply = client.post(VALIDATE, body + " ").await;
    assert_eq!(reply.status, 413);
    assert!(String::from_utf8_lossy(&reply.body).contains("7 MiB"), "{reply:?}");
}

#[tokio::test]
async fn a_body_without_end_is_refused_without_being_kept() {
    let served = Served::start().await;
    let mut stream = tls(served.addresses.https, client_config(&served.ca)).await.unwrap();
    let head = format!(
        "POST {MUTATE} HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", MIB, "x".repeat(MIB));
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sending = tokio::spawn(async move { while writer.write_all(chunk.as_bytes()).await.is_ok() {} });
    let mut answer = vec![0; 64];
    let length = soon("an answer", reader.read(&mut answer)).await.unwrap();
    assert!(String::from_utf8_lossy(&answer[..length]).starts_with("HTTP/1.1 413"), "{answer:?}");
    soon("the connection's end", sending).await.unwrap();
}

#[tokio::test]
async fn twenty_bodies_of_50_mb_at_once_hold_no_review_up() {
    let served = Served::start().await;
    let mut senders = Vec::new();
    for _ in 0..20 {
        let mut stream = tls(served.addresses.https, client_config(&served.ca)).await.unwrap();
        senders.push(tokio::spawn(async move {
            let head = format!(
                "POST {MUTATE} HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                50 * MIB
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let piece = vec![b' '; MIB];
            let mut sent = 0;
            while sent < 50 && stream.write_all(&piece).await.is_ok() {
                sent += 1;
            }
            sent
        }));
    }
    let review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    let answer = async { served.connect().await.review(MUTATE, &review).await };
    let answer = soon("an answer", answer).await;
    assert_eq!(answer["allowed"], true);
    for sender in senders {
        assert!(soon("the end of a sender", sender).await.unwrap() < 50, "a body was read to its end");
    }
}

#[tokio::test]
async fn only_json_is_read() {
    let served = Served::start().await;
    let review = creation(&webservice(&json!({"image": "nginx:1.27"}))).to_string();
    for (content_type, status) in [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/yaml", 415),
        ("application/vnd.kubernetes.protobuf", 415),
        ("application/jsonx", 415),
        ("", 415),
    ] {
        let mut client = served.connect().await;
        let reply = client.send(post(MUTATE, content_type, review.clone())).await.unwrap();
        assert_eq!(reply.status, status, "{content_type}");
    }
}

#[tokio::test]
async fn only_the_two_paths_take_only_posts() {
    let served = Served::start().await;
    let mut client = served.connect().await;
    let get = Request::get(MUTATE).header("host", NAME).body(Full::<Bytes>::default()).unwrap();
    let reply = client.send(get).await.unwrap();
    assert_eq!((reply.status.as_u16(), &reply.headers["allow"]), (405, &"POST".parse().unwrap()));
    for path in ["/", "/mutate", "/readyz", "/metrics"] {
        assert_eq!(client.post(path, "{}").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_header_that_is_too_long_is_refused() {
    let served = Served::start().await;
    let mut request = post(MUTATE, "application/json", "{}");
    request.headers_mut().insert("x-long", "x".repeat(17 * 1024).parse().unwrap());
    assert_eq!(served.connect().await.send(request).await.unwrap().status, 431);
}

#[tokio::test]
async fn callers_who_say_nothing_hold_nobody_up() {
    let served = Served::start().await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(served.addresses.https).await.unwrap());
    }
    let review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    let answer = async { served.connect().await.review(MUTATE, &review).await };
    let answer = soon("an answer", answer).await;
    assert_eq!(answer["allowed"], true);
    drop(silent);
}

#[tokio::test]
async fn callers_beyond_the_limit_wait_for_a_place() {
    let served = Served::start_with(&["--max-connections=1"]).await;
    let first = served.connect().await;
    let mut waiting = Box::pin(served.connect());
    tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.err().expect("no place is free");
    drop(first);
    soon("a place", waiting).await;
}

#[tokio::test]
async fn garbage_in_place_of_a_handshake_ends_the_connection_and_is_counted() {
    let served = Served::start().await;
    let mut stream = TcpStream::connect(served.addresses.https).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    soon("the end of the connection", stream.read_to_end(&mut rest)).await.unwrap();
    let counted = async {
        while !served.metrics().await.contains("webservice_webhook_tls_handshake_errors_total 1\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("a counted error", counted).await;
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_spoken() {
    let served = Served::start().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = ClientConfig::builder_with_provider(client_config(&served.ca).crypto_provider().clone())
            .with_protocol_versions(&[version])
            .unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(crate::support::der(served.ca.certificate_pem())).unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = tls(served.addresses.https, config).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
    }
}

#[tokio::test]
async fn http_1_1_is_chosen_where_more_is_offered_and_http_2_alone_is_refused() {
    let served = Served::start().await;
    let offering = |protocols: &[&str]| {
        let mut config = client_config(&served.ca);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    };
    let stream = tls(served.addresses.https, offering(&["h2", "http/1.1"])).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    tls(served.addresses.https, offering(&["h2"])).await.unwrap_err();
}
