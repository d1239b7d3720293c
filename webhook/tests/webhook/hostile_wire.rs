//! Bytes that nobody should send, below the level of reviews. The object within is always one that must be refused, so
//! whatever a request is taken for, an answer that allows it is a mistake.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::support::{Served, VALIDATE, client_config, creation, soon, tls, webservice};

/// What takes longer hangs.
pub(crate) const HANG: Duration = Duration::from_secs(1);

struct Case {
    what: String,
    bytes: Vec<u8>,
    expected: Expected,
}

#[derive(Clone, Copy)]
enum Expected {
    /// So many answers, each with one of these codes.
    Answers(usize, &'static [u16]),
    /// The connection is closed without an answer.
    Closed,
    /// The client goes away in the middle; no answer but a refusal may come, and the connection ends.
    Ends,
}
use Expected::{Answers, Closed, Ends};

const REFUSED: Expected = Answers(1, &[400]);
const READ: Expected = Answers(1, &[200]);
/// Both readings are right; what counts is that one is chosen and the object is refused.
const EITHER: Expected = Answers(1, &[200, 400]);
const TOO_LONG: Expected = Answers(1, &[414, 431]);

fn case(what: impl Into<String>, bytes: impl Into<Vec<u8>>, expected: Expected) -> Case {
    Case { what: what.into(), bytes: bytes.into(), expected }
}

fn body() -> String {
    creation(&webservice(&json!({"replicas": 1}))).to_string()
}

/// A request with this line and these headers beside those that every one has.
fn request(line: &str, headers: &str, body: &str) -> String {
    format!("{line}\r\nhost: webhook\r\ncontent-type: application/json\r\n{headers}\r\n{body}")
}

fn post(headers: &str, body: &str) -> String {
    request(&format!("POST {VALIDATE} HTTP/1.1"), headers, body)
}

fn good() -> String {
    post(&format!("content-length: {}\r\n", body().len()), &body())
}

/// The same with another line.
fn with_line(line: &str) -> String {
    request(line, &format!("content-length: {}\r\n", body().len()), &body())
}

/// The same with one more header.
fn with_header(header: &str) -> String {
    post(&format!("content-length: {}\r\n{header}\r\n", body().len()), &body())
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn chunked(body: &str) -> String {
    post("transfer-encoding: chunked\r\n", body)
}

fn whole_chunk() -> String {
    chunk(&body())
}

fn lines() -> Vec<Case> {
    let mut cases = vec![
        case("an ordinary request", good(), READ),
        case("HTTP/1.0", with_line(&format!("POST {VALIDATE} HTTP/1.0")), READ),
        case("a full URL", with_line(&format!("POST https://webhook{VALIDATE} HTTP/1.1")), READ),
        case("an empty line before", format!("\r\n{}", good()), READ),
        case("a path of 20 KB", with_line(&format!("POST /{} HTTP/1.1", "p".repeat(20_000))), TOO_LONG),
        case(
            "a query of 20 KB",
            with_line(&format!("POST {VALIDATE}?{} HTTP/1.1", "q".repeat(20_000))),
            TOO_LONG,
        ),
    ];
    for version in ["HTTP/1.2", "HTTP/2.0", "HTTP/9.9", "HTTP/1", "HTTP/", "http/1.1", "ICY/1.1", ""] {
        cases.push(case(
            format!("the version {version:?}"),
            with_line(&format!("POST {VALIDATE} {version}")),
            REFUSED,
        ));
    }
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "post", "PROPFIND"] {
        let line = format!("{method} {VALIDATE} HTTP/1.1");
        cases.push(case(format!("the method {method}"), with_line(&line), Answers(1, &[405])));
    }
    for line in [
        "POST",
        "POST  HTTP/1.1",
        "",
        "\0\0\0\0",
        "P\u{e9}ST / HTTP/1.1",
        "POST\t/\tHTTP/1.1",
        "(POST) / HTTP/1.1",
    ] {
        cases.push(case(format!("the line {line:?}"), with_line(line), REFUSED));
    }
    for path in [
        "/",
        "//",
        "/..",
        "/%2e%2e/",
        "/%00",
        "/%zz",
        "/mutate",
        "/validate-apps-labhub-io-v1-webservice/",
        "/metrics",
    ] {
        let line = format!("POST {path} HTTP/1.1");
        cases.push(case(format!("the path {path}"), with_line(&line), Answers(1, &[404])));
    }
    for query in [
        "timeout=",
        "timeout=x",
        "timeout=-5s",
        "timeout=99999999999999h",
        "timeout=5s&timeout=1s",
        "%zz",
        "=",
        "a[]=1",
    ] {
        let line = format!("POST {VALIDATE}?{query} HTTP/1.1");
        cases.push(case(format!("the query {query}"), with_line(&line), EITHER));
    }
    cases
}

fn headers() -> Vec<Case> {
    let mut cases = vec![
        case("200 headers", with_header(&"x: y\r\n".repeat(200)), TOO_LONG),
        case("a header of 17 KB", with_header(&format!("x: {}", "y".repeat(17 * 1024))), TOO_LONG),
        case("a header's name of 17 KB", with_header(&format!("{}: y", "x".repeat(17 * 1024))), TOO_LONG),
        case("an upgrade to HTTP/2", with_header("connection: upgrade\r\nupgrade: h2c"), READ),
        case("an upgrade to a web socket", with_header("connection: upgrade\r\nupgrade: websocket"), READ),
        case("no host", good().replacen("host: webhook\r\n", "", 1), EITHER),
        case("two hosts", with_header("host: elsewhere"), EITHER),
        case("line feeds alone", good().replace("\r\n", "\n"), EITHER),
        case(
            "no content type",
            good().replacen("content-type: application/json\r\n", "", 1),
            Answers(1, &[415]),
        ),
        case(
            "a compressed body that is none",
            with_header("content-encoding: gzip"),
            Answers(1, &[200, 400, 415]),
        ),
    ];
    for header in [
        ": y",
        "x",
        "x y: z",
        "x : y",
        "x: \0",
        "x: a\u{1}b",
        " folded: yes",
        "x: y\r\n folded",
        "\u{e9}: y",
        "(x): y",
    ] {
        cases.push(case(format!("the header {header:?}"), with_header(header), EITHER));
    }
    for content_type in [
        "",
        "text/plain",
        "text/json",
        "application/yaml",
        "json",
        "*/*",
        "application/json-patch+json",
        "\u{e9}",
    ] {
        let bytes = good().replacen("application/json", content_type, 1);
        cases.push(case(format!("the content type {content_type:?}"), bytes, Answers(1, &[415])));
    }
    cases
}

fn lengths() -> Vec<Case> {
    let length = body().len();
    let mut cases = vec![
        case("no length", post("", ""), REFUSED),
        case("a length of 0", post("content-length: 0\r\n", ""), REFUSED),
        case("the same length twice", with_header(&format!("content-length: {length}")), EITHER),
        case("two lengths", with_header("content-length: 5"), REFUSED),
        case(
            "a length one too short",
            post(&format!("content-length: {}\r\n", length - 1), &body()),
            Answers(2, &[400]),
        ),
        case("more than the length", good() + "x\r\n\r\n", Answers(2, &[200, 400])),
        case("a length over the limit", post("content-length: 7340033\r\n", ""), Ends),
        case("a length of 2^63", post("content-length: 9223372036854775808\r\n", &body()), Ends),
    ];
    for value in ["-1", "+5", "0x10", "1e3", "5.0", "x", "", "5 5", "5,6", "18446744073709551616", "\u{661}"]
    {
        let bytes = post(&format!("content-length: {value}\r\n"), &body());
        cases.push(case(format!("the length {value:?}"), bytes, REFUSED));
    }
    cases
}

fn chunks() -> Vec<Case> {
    let (whole, end) = (whole_chunk(), "0\r\n\r\n");
    let single: String = body().chars().map(|byte| chunk(&byte.to_string())).collect();
    let extended = whole.replacen("\r\n", ";name=value;x=\"y\"\r\n", 1);
    let both =
        |first: &str, second: &str| post(&format!("{first}\r\n{second}\r\n"), &format!("{whole}{end}"));
    let te = "transfer-encoding: chunked";
    let mut cases = vec![
        case("one chunk", chunked(&format!("{whole}{end}")), READ),
        case("chunks of one byte", chunked(&format!("{single}{end}")), READ),
        case("a chunk with extensions", chunked(&format!("{extended}{end}")), READ),
        case("trailers", chunked(&format!("{whole}0\r\nx: y\r\ncontent-length: 1\r\n\r\n")), READ),
        case("trailers of 20 KB", chunked(&format!("{whole}0\r\nx: {}\r\n\r\n", "y".repeat(20_000))), EITHER),
        case(
            "an extension of 20 KB",
            chunked(&whole.replacen("\r\n", &format!(";{}\r\n", "x".repeat(20_000)), 1)),
            REFUSED,
        ),
        case("no bytes in no chunks", chunked(end), REFUSED),
        case("a length and chunks", both("content-length: 3", te), EITHER),
        case("chunks and a length", both(te, "content-length: 3"), EITHER),
        case("chunks twice", both(te, te), EITHER),
    ];
    for size in ["-1", "0x10", "g", "", " ", "fffffffffffffffff", "1 1", "\u{e9}", "10\u{b}"] {
        let bytes = chunked(&format!("{size}\r\n{}\r\n{end}", body()));
        cases.push(case(format!("a chunk of the size {size:?}"), bytes, REFUSED));
    }
    cases.push(case("a chunk of 2^64 bytes", chunked(&format!("ffffffffffffffff\r\n{}", body())), Ends));
    cases.push(case(
        "a chunk that is longer than it says",
        chunked(&format!("5\r\n{}\r\n{end}", body())),
        REFUSED,
    ));
    for coding in [
        "gzip",
        "identity",
        "xchunked",
        "chunked, gzip",
        "gzip, chunked",
        "chunked, chunked",
        "\"chunked\"",
        "chunked;q=1",
    ] {
        let bytes = post(&format!("transfer-encoding: {coding}\r\n"), &format!("{whole}{end}"));
        cases.push(case(format!("the transfer coding {coding:?}"), bytes, Answers(1, &[200, 400, 501])));
    }
    cases
}

fn sequences() -> Vec<Case> {
    let smuggled = format!("{}{}", chunked("0\r\n\r\n"), good());
    let rapid_reset: Vec<u8> = (0_u32..1000)
        .flat_map(|stream| {
            let id = (2 * stream + 1).to_be_bytes();
            let headers = [&[0, 0, 1, 1, 5][..], &id, &[0x82]].concat();
            let reset = [&[0, 0, 4, 3, 0][..], &id, &[0, 0, 0, 8]].concat();
            headers.into_iter().chain(reset)
        })
        .collect();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    vec![
        case("two requests at once", good().repeat(2), Answers(2, &[200])),
        case("thirty requests at once", good().repeat(30), Answers(30, &[200])),
        case("a request behind an empty one", smuggled, Answers(1, &[400])),
        case("a request behind nonsense", format!("nonsense\r\n\r\n{}", good()), REFUSED),
        case("a request that is told to go on", with_header("expect: 100-continue"), Answers(2, &[100, 200])),
        case(
            "a request that expects something else",
            with_header("expect: miracles"),
            Answers(1, &[200, 417]),
        ),
        case("the preface of HTTP/2", preface.clone(), Closed),
        case("a rapid reset of HTTP/2", [preface, rapid_reset].concat(), Closed),
        case("TLS within TLS", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00".to_vec(), REFUSED),
        case("every byte once", (0..=255).collect::<Vec<u8>>(), REFUSED),
        case("64 KB of zeros", vec![0; 65_536], REFUSED),
        case("64 KB of the letter A", vec![b'A'; 65_536], Answers(1, &[400, 414, 431])),
    ]
}

/// Cut off at every place where a parser changes its state.
fn truncations() -> Vec<Case> {
    let plain = good();
    let chunked = chunked(&format!("{}0\r\nx: y\r\n\r\n", whole_chunk()));
    let mut cases = Vec::new();
    for (kind, request) in [("plain", &plain), ("chunked", &chunked)] {
        let head = request.find("\r\n\r\n").unwrap_or_default();
        let ends = [0, 1, 4, 5, 20, head - 1, head + 1, head + 3, head + 4, head + 5, head + 50];
        for end in ends.into_iter().chain((1..9).map(|back| request.len() - back)) {
            cases.push(case(
                format!("a {kind} request cut off after {end} bytes"),
                &request.as_bytes()[..end],
                Ends,
            ));
        }
    }
    cases
}

/// The codes of the answers; those that are reviews must refuse the object.
async fn read_answers(stream: &mut TlsStream<TcpStream>, most: usize) -> Result<Vec<u16>, String> {
    let (mut received, mut codes) = (Vec::new(), Vec::new());
    while codes.len() < most {
        while let Some((code, body, length)) = parse(&received)? {
            if code == 200 {
                let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                let response = &answer["response"];
                if response["allowed"] != false || response["status"]["code"] != 422 {
                    return Err(format!("allowed by mistake: {answer}"));
                }
            }
            codes.push(code);
            received.drain(..length);
        }
        // A connection that is reset has ended too.
        if codes.len() < most && stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            break;
        }
    }
    if received.is_empty() {
        Ok(codes)
    } else {
        Err(format!("half an answer: {}", String::from_utf8_lossy(&received)))
    }
}

/// The first answer: its code, its body, and how many bytes it takes.
fn parse(received: &[u8]) -> Result<Option<(u16, Vec<u8>, usize)>, String> {
    let Some(head) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|end| end + 4) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&received[..head]).map_err(|error| error.to_string())?;
    let malformed = || format!("a malformed answer: {text}");
    let code =
        text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).map(str::parse::<usize>);
    let length = length.transpose().map_err(|_| malformed())?.unwrap_or(0);
    let body = received.get(head..head + length).map(<[u8]>::to_vec);
    body.map(|body| code.ok_or_else(malformed).map(|code| (code, body, head + length))).transpose()
}

/// What is wrong with how the server takes it.
async fn fault(served: &Served, case: &Case) -> Option<String> {
    let mut stream =
        soon("a connection", tls(served.addresses.https, client_config(&served.ca))).await.unwrap();
    let talking = async {
        // The server may close the connection before it has read everything.
        _ = stream.write_all(&case.bytes).await;
        _ = stream.flush().await;
        match case.expected {
            Answers(number, permitted) => {
                let codes = read_answers(&mut stream, number).await?;
                let is_right = codes.len() == number && codes.iter().all(|code| permitted.contains(code));
                if is_right { Ok(()) } else { Err(format!("{codes:?} instead of {number} of {permitted:?}")) }
            }
            Closed => match read_answers(&mut stream, usize::MAX).await? {
                codes if codes.is_empty() => Ok(()),
                codes => Err(format!("{codes:?} instead of a closed connection")),
            },
            Ends => {
                _ = stream.shutdown().await;
                let codes = read_answers(&mut stream, usize::MAX).await?;
                let is_right = codes.iter().all(|code| [100, 400, 408, 413].contains(code));
                if is_right { Ok(()) } else { Err(format!("{codes:?}")) }
            }
        }
    };
    timeout(HANG, talking).await.unwrap_or_else(|_| Err(format!("no end within {HANG:?}"))).err()
}

#[tokio::test]
async fn whatever_bytes_come_they_are_refused_at_once_or_read_as_what_they_are() {
    let served = Served::start().await;
    let cases: Vec<_> =
        [lines(), headers(), lengths(), chunks(), sequences(), truncations()].into_iter().flatten().collect();
    let mut faults = Vec::new();
    for case in &cases {
        // A busy machine may be slow once; a server that hangs does so again.
        if fault(&served, case).await.is_some()
            && let Some(fault) = fault(&served, case).await
        {
            faults.push(format!("{}: {fault}", case.what));
        }
    }
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
    assert!(cases.len() >= 150, "{} cases are left", cases.len());
    assert!(!served.metrics().await.contains(r#"code="500""#));
    assert_eq!(served.probe("/readyz").await.0, 200);
}

/// A client's first words in TLS 1.`minor`, with one cipher suite, curve and signature scheme that go together.
fn hello(minor: u8) -> Vec<u8> {
    let extensions: &[u8] = &[0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3];
    let head: &[u8] = &[22, 3, 1, 0, 69, 1, 0, 0, 65, 3, minor + 1];
    [head, &[7; 32], &[0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 22], extensions].concat()
}

#[tokio::test]
async fn tls_1_1_is_refused() {
    let served = Served::start().await;
    let mut answers = Vec::new();
    for minor in [2, 1] {
        let mut stream = TcpStream::connect(served.addresses.https).await.unwrap();
        stream.write_all(&hello(minor)).await.unwrap();
        let mut answer = [0; 7];
        soon("an answer", stream.read_exact(&mut answer)).await.unwrap();
        answers.push(answer);
    }
    let [spoken, refused] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(spoken[0], 22, "the same words in TLS 1.2 are answered by a handshake");
    assert_eq!(refused, [21, 3, refused[2], 0, 2, 2, 70], "an alert that this version is not spoken");
}
