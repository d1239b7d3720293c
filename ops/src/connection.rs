//! One HTTP connection from its first byte to its last.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::activity::{Activity, Limits, Observed, Watchdog};
use crate::service::Service;

/// Longest header of a request. The API server's are below 1 KiB.
const MAX_HEADER: usize = 16 * 1024;
/// Most that is read at a time: a TLS record. Callers that send much should not occupy more than that.
const MAX_BUFFER: usize = 16 * 1024;

/// Serves requests until the client leaves or takes too long over something. Once `draining` is cancelled every answer
/// asks the client to close the connection, and one that nobody uses is closed soon.
pub(crate) async fn serve<S>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: S,
    limits: Limits,
    draining: CancellationToken,
) where
    S: Service,
{
    let activity = Activity::new();
    let watchdog = Watchdog::new(Arc::clone(&activity), limits, draining.clone());
    let io = TokioIo::new(Observed { stream, activity: Arc::clone(&activity) });
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        activity.request_began();
        let (service, activity, draining) = (service.clone(), Arc::clone(&activity), draining.clone());
        async move {
            let mut response = service.answer(request).await;
            if draining.is_cancelled() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            activity.request_ended();
            Ok::<_, Infallible>(response)
        }
    });

    let mut connection = pin!(http().serve_connection(io, service));
    tokio::select! {
        biased;
        ended = &mut connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            return;
        }
        () = watchdog => {}
    }
    connection.as_mut().graceful_shutdown();
    // Whether the client listens to the end is its own affair.
    let _ = tokio::time::timeout(limits.goodbye, connection).await;
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(MAX_HEADER)
        .max_buf_size(MAX_BUFFER);
    http
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    const REQUEST: &[u8] = b"POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\nhi";

    /// A client's end of a served connection, and the switch that begins the draining.
    fn connect() -> (DuplexStream, CancellationToken) {
        let (client, stream) = duplex(64 * 1024);
        let draining = CancellationToken::new();
        let router = Router::new().route("/echo", post(|body: String| async { body }));
        tokio::spawn(serve(stream, router, Limits::default(), draining.clone()));
        (client, draining)
    }

    /// Everything until the connection is closed, and how long that took.
    async fn read_to_end(client: &mut DuplexStream) -> (String, Duration) {
        let began = Instant::now();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        (text, began.elapsed())
    }

    async fn read_answer(client: &mut DuplexStream) -> String {
        let mut answer = vec![0; 1024];
        let length = client.read(&mut answer).await.unwrap();
        String::from_utf8(answer[..length].to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_outlives_the_callers_own_limit_of_90_s() {
        let (mut client, _draining) = connect();
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(95)).await;
            client.write_all(REQUEST).await.unwrap();
            assert!(read_answer(&mut client).await.starts_with("HTTP/1.1 200 OK"));
        }
        let (rest, after) = read_to_end(&mut client).await;
        assert_eq!((rest.as_str(), after.as_secs()), ("", 120));
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_that_drips_in_is_given_up() {
        let (mut client, _draining) = connect();
        let dripping = async {
            for byte in REQUEST {
                client.write_all(&[*byte]).await?;
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            Ok::<_, std::io::Error>(())
        };
        let began = Instant::now();
        dripping.await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let (mut client, _draining) = connect();
        client.write_all(&REQUEST[..REQUEST.len() - 1]).await.unwrap();
        let (answer, after) = read_to_end(&mut client).await;
        assert_eq!(answer, "");
        assert!((30..=31).contains(&after.as_secs()), "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_while_draining_ask_to_close_the_connection() {
        let (mut client, draining) = connect();
        client.write_all(REQUEST).await.unwrap();
        assert!(!read_answer(&mut client).await.contains("connection: close"));
        draining.cancel();
        client.write_all(REQUEST).await.unwrap();
        let (answer, after) = read_to_end(&mut client).await;
        assert!(answer.contains("connection: close") && answer.ends_with("hi"), "{answer}");
        assert_eq!(after, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_is_kept_for_a_moment_while_draining() {
        let (mut client, draining) = connect();
        tokio::time::sleep(Duration::from_mins(1)).await;
        draining.cancel();
        let (_, after) = read_to_end(&mut client).await;
        assert_eq!(after, Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_arrives_while_draining_is_read_to_its_end() {
        let (mut client, draining) = connect();
        client.write_all(&REQUEST[..10]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        draining.cancel();
        tokio::time::sleep(Duration::from_secs(5)).await;
        client.write_all(&REQUEST[10..]).await.unwrap();
        assert!(read_to_end(&mut client).await.0.ends_with("hi"));
    }
}
