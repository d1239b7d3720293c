//! The connections of the proxy: HTTP/1.1 on both sides, and to the API server one per request.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::{FutureExt, StreamExt};
use http::{HeaderValue, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, Limited, StreamBody};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::kinds::{End, Fault};
use super::request::ApiRequest;
use super::rules::{Met, Progress, Rules};
use crate::bench::client::Target;

/// More than the API server accepts.
const MAX_BODY: usize = 4 * 1024 * 1024;

type BoxError = Box<dyn Error + Send + Sync>;
type AnyBody = UnsyncBoxBody<Bytes, BoxError>;
type Reply = Result<Response<AnyBody>, BoxError>;

/// The connection ends by a reset.
#[derive(Debug, thiserror::Error)]
#[error("reset on purpose")]
struct Reset;

/// The connection ends in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut off on purpose")]
struct Cut;

/// The API server, and what stands in the way to it.
pub(super) struct Upstream {
    target: Target,
    host: String,
    rules: Arc<Rules>,
}

/// Serves whoever connects. All connections end with it.
pub(super) async fn accept(listener: TcpListener, upstream: Arc<Upstream>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&upstream)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, upstream: Arc<Upstream>) {
    let handle = service_fn(|request| upstream.handle(request));
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), handle);
    let ended = (&mut connection).await;
    if ended.is_err_and(|error| error.source().is_some_and(<dyn Error>::is::<Reset>)) {
        // Fails where the client was faster.
        _ = connection.into_parts().io.into_inner().set_zero_linger();
    }
}

impl Upstream {
    pub(super) fn new(target: Target, host: String, rules: Arc<Rules>) -> Self {
        Self { target, host, rules }
    }

    async fn handle(&self, request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
        let asked = ApiRequest::read(&parts.method, &parts.uri, &body);
        let met = self.rules.meet(asked);
        let request = Request::from_parts(parts, Full::new(body));
        let Some(Met { fault, progress }) = met else {
            return Ok(self.forward(request).await?.map(boxed));
        };
        match fault {
            Fault::Before(end) => end.reply().await,
            Fault::After(end) => {
                self.forward(request).await?.into_body().collect().await?;
                end.reply().await
            }
            Fault::Truncate => truncated(self.forward(request).await?).await,
            Fault::Silence => Ok(self.forward(request).await?.map(|body| silent(body, progress))),
            Fault::Slow(delay) => Ok(self.forward(request).await?.map(|body| slow(body, delay))),
        }
    }

    /// Sends the request on, and gives the answer when it begins.
    async fn forward(&self, mut request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        let stream = self.target.connect().await?.stream;
        request.headers_mut().insert(header::HOST, HeaderValue::from_str(&self.host)?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the answer.
        tokio::spawn(connection);
        sender.send_request(request).await.context("failed to reach the API server")
    }
}

impl End {
    async fn reply(self) -> Reply {
        match self {
            Self::Answer(answer) => Ok(answer.response()?.map(|text| boxed(Full::new(Bytes::from(text))))),
            Self::Reset => Err(Reset.into()),
            Self::Hang(length) => {
                sleep(length).await;
                Err(Reset.into())
            }
        }
    }
}

/// Half of the first part of the answer, then the end of the connection.
async fn truncated(response: Response<Incoming>) -> Reply {
    let (parts, mut body) = response.into_parts();
    let first = match body.frame().await {
        Some(frame) => frame?.into_data().unwrap_or_default(),
        None => Bytes::new(),
    };
    let half = first.slice(..first.len() / 2);
    let frames = futures::stream::iter([Ok(Frame::data(half)), Err(Cut)]);
    Ok(Response::from_parts(parts, boxed(StreamBody::new(frames))))
}

/// Every part of the answer later than it came.
fn slow(body: Incoming, delay: Duration) -> AnyBody {
    boxed(StreamBody::new(BodyStream::new(body).then(move |part| async move {
        sleep(delay).await;
        part
    })))
}

/// Nothing before the fault is lifted, not even the end; then everything.
fn silent(body: Incoming, mut progress: watch::Receiver<Progress>) -> AnyBody {
    let lifted = async move {
        // An error says that the proxy is gone, and then so is the connection.
        _ = progress.wait_for(|progress| progress.is_lifted).await;
    };
    boxed(StreamBody::new(lifted.map(|()| BodyStream::new(body)).flatten_stream()))
}

fn boxed<B>(body: B) -> AnyBody
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}
