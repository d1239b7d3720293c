//! A client layer that heeds the header `Retry-After`.
//!
//! kube gives errors as the `Status` in the answer's body. The API server says there too how long it wants to
//! be left alone, but its protection against overload answers with a line of text and the header alone, as
//! proxies do. With this layer such an answer becomes a `Status` that holds the number, for [`asked`] to read.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use kube::client::DynBody;
use kube::core::Status;
use kube::core::response::StatusDetails;
use tower::{BoxError, Layer, Service};

/// The longest text of an error that is read.
const MAX_TEXT: usize = 64 * 1024;

/// See the [module](self). For `kube::client::ClientBuilder::with_layer`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeedRetryAfter;

impl<S> Layer<S> for HeedRetryAfter {
    type Service = Heeding<S>;

    fn layer(&self, inner: S) -> Heeding<S> {
        Heeding { inner }
    }
}

/// What [`HeedRetryAfter`] makes of a service.
#[derive(Clone, Debug)]
pub struct Heeding<S> {
    inner: S,
}

impl<S, R> Service<Request<R>> for Heeding<S>
where
    S: Service<Request<R>, Response = Response<Box<DynBody>>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let answer = self.inner.call(request);
        async move {
            let response = answer.await.map_err(Into::into)?;
            match asked_seconds(&response) {
                Some(seconds) => with_seconds(response, seconds).await,
                None => Ok(response),
            }
        }
        .boxed()
    }
}

/// How long the server asks to be left alone; zero where it does not.
#[must_use]
pub fn asked(status: &Status) -> Duration {
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into())
}

/// What the header asks for. It may also be a date, which neither the API server nor client-go uses.
fn asked_seconds<B>(response: &Response<B>) -> Option<u32> {
    let code = response.status();
    let is_temporary = code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
    let header = response.headers().get(header::RETRY_AFTER).filter(|_| is_temporary)?;
    header.to_str().ok()?.trim().parse().ok()
}

async fn with_seconds(
    response: Response<Box<DynBody>>,
    seconds: u32,
) -> Result<Response<Box<DynBody>>, BoxError> {
    let (parts, body) = response.into_parts();
    let text = text_of(body).await?;
    let in_words = || {
        let reason = parts.status.canonical_reason().unwrap_or_default();
        Status::failure(String::from_utf8_lossy(&text).trim(), reason).with_code(parts.status.as_u16())
    };
    let mut status = serde_json::from_slice(&text).unwrap_or_else(|_| in_words());
    status.details.get_or_insert_with(no_details).retry_after_seconds = seconds;
    let body = Full::from(serde_json::to_vec(&status)?).map_err(|never| match never {});
    Ok(Response::from_parts(parts, Box::new(body)))
}

/// What the body holds, as far as it is looked at.
async fn text_of(mut body: Box<DynBody>) -> Result<Vec<u8>, BoxError> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        text.extend(frame?.into_data().unwrap_or_default());
        if text.len() > MAX_TEXT {
            break;
        }
    }
    Ok(text)
}

fn no_details() -> StatusDetails {
    let [name, group, kind, uid] = std::array::from_fn(|_| String::new());
    StatusDetails { name, group, kind, uid, causes: Vec::new(), retry_after_seconds: 0 }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::service_fn;

    use super::*;

    /// What a client reads out of this answer.
    async fn read(code: u16, retry_after: &str, text: &'static str) -> (u16, String, u32) {
        let answer = Response::builder().status(code).header(header::RETRY_AFTER, retry_after);
        let body: Box<DynBody> = Box::new(Full::from(text).map_err(|never| match never {}));
        let answer = std::sync::Mutex::new(Some(answer.body(body).unwrap()));
        let server = service_fn(|_: Request<()>| {
            let answer = answer.lock().unwrap().take().unwrap();
            async move { Ok::<_, Infallible>(answer) }
        });
        let response = HeedRetryAfter.layer(server).call(Request::new(())).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        match serde_json::from_slice::<Status>(&body) {
            Ok(status) => {
                (status.code, status.message, status.details.map_or(0, |details| details.retry_after_seconds))
            }
            Err(_) => (code, String::from_utf8_lossy(&body).into_owned(), 0),
        }
    }

    #[tokio::test]
    async fn a_line_of_text_becomes_a_status_that_says_how_long_to_wait() {
        let told = read(429, "3", "Too many requests, please try again later.\n").await;
        assert_eq!(told, (429, "Too many requests, please try again later.".into(), 3));
    }

    #[tokio::test]
    async fn a_status_keeps_its_words() {
        let told = read(503, "7", r#"{"code": 503, "message": "shutting down", "reason": "x"}"#).await;
        assert_eq!(told, (503, "shutting down".into(), 7));
    }

    #[tokio::test]
    async fn what_asks_for_nothing_or_is_no_error_is_left_alone() {
        assert_eq!(read(429, "Wed, 21 Oct 2026 07:28:00 GMT", "later").await, (429, "later".into(), 0));
        assert_eq!(read(200, "3", "fine").await, (200, "fine".into(), 0));
    }
}
