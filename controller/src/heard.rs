//! When the API server was last heard of: in all, and by the watches of each resource.
//!
//! A quiet resource has no events for hours, so the age of its last event says little about a cache. What does is the last
//! byte that the server has sent on its watches: an event, a bookmark, or the answer to a watch that was taken up again, which
//! is due every [`WATCH_SECONDS`](crate::engine::feeder::WATCH_SECONDS).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::{Body, DynBody};
use tokio::time::Instant;
use tower::{Layer, Service};

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Heard {
    answers: Pulse,
    /// By the path of the collection: as many as resources and scopes are watched.
    watches: Mutex<BTreeMap<Box<str>, Arc<Watch>>>,
}

#[derive(Debug, Default)]
struct Watch {
    bytes: Pulse,
    begun: AtomicU64,
}

impl Heard {
    /// A request was answered with `code`, or not at all. A server that only says that it cannot serve does not count.
    pub fn answered(&self, code: Option<u16>) {
        if code.is_some_and(|code| code < 500) {
            self.answers.beat();
        }
    }

    /// The time since the last answer, or since the start.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.answers.age()
    }

    /// The time since the watches of `resource` (in the plural) last heard anything; of several, the one that heard least.
    #[must_use]
    pub fn age(&self, resource: &str) -> Duration {
        self.of(resource).iter().map(|watch| watch.bytes.age()).max().unwrap_or_else(|| self.answers.life())
    }

    /// How often a watch of `resource` has begun.
    #[must_use]
    pub fn begun(&self, resource: &str) -> u64 {
        self.of(resource).iter().map(|watch| watch.begun.load(Ordering::Relaxed)).sum()
    }

    fn of(&self, resource: &str) -> Vec<Arc<Watch>> {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = watches.iter().filter(|(path, _)| path.rsplit('/').next() == Some(resource));
        ours.map(|(_, watch)| Arc::clone(watch)).collect()
    }

    fn watch(&self, path: &str) -> Arc<Watch> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(watches.entry(path.into()).or_default())
    }
}

/// A moment that moves on.
#[derive(Debug)]
struct Pulse {
    began: Instant,
    /// In milliseconds after `began`.
    last: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Pulse {
    fn beat(&self) {
        let now = u64::try_from(self.life().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        self.life().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    fn life(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Listens to what the server sends to a client that only lists and watches. For
/// `kube::client::ClientBuilder::with_layer`, as the first one.
#[derive(Clone, Debug)]
pub struct HeardLayer(pub Arc<Heard>);

impl<S> Layer<S> for HeardLayer {
    type Service = Hearing<S>;

    fn layer(&self, inner: S) -> Hearing<S> {
        Hearing { inner, heard: Arc::clone(&self.0) }
    }
}

/// What [`HeardLayer`] makes of a service.
#[derive(Debug)]
pub struct Hearing<S> {
    inner: S,
    heard: Arc<Heard>,
}

impl<S> Service<Request<Body>> for Hearing<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watch = self.heard.watch(request.uri().path());
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        self.inner.call(request).map_ok(move |answer| listen(answer, watch, is_watch)).boxed()
    }
}

fn listen(answer: Response<Box<DynBody>>, watch: Arc<Watch>, is_watch: bool) -> Response<Box<DynBody>> {
    if !answer.status().is_success() {
        return answer;
    }
    watch.bytes.beat();
    watch.begun.fetch_add(is_watch.into(), Ordering::Relaxed);
    answer.map(|body| {
        let listened = body.map_frame(move |frame| {
            watch.bytes.beat();
            frame
        });
        Box::new(listened) as Box<DynBody>
    })
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc;
    use futures::{SinkExt, StreamExt};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use tower::{BoxError, ServiceExt, service_fn};

    use super::*;

    type Sender = mpsc::Sender<Result<Frame<Bytes>, BoxError>>;

    /// Sends a request through the layer; what is put into the sender arrives as the body of the answer.
    async fn send(heard: &Arc<Heard>, uri: &str, status: u16) -> (Response<Box<DynBody>>, Sender) {
        let (sender, frames) = mpsc::channel(1);
        let mut body = Some(Box::new(StreamBody::new(frames)) as Box<DynBody>);
        let server = service_fn(move |_: Request<Body>| {
            let body = body.take().unwrap();
            async move { Ok::<_, BoxError>(Response::builder().status(status).body(body).unwrap()) }
        });
        let request = Request::get(uri).body(Body::empty()).unwrap();
        (HeardLayer(Arc::clone(heard)).layer(server).oneshot(request).await.unwrap(), sender)
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_a_watch_sends_makes_its_cache_young() {
        let heard = Arc::<Heard>::default();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(heard.age("webservices").as_secs(), 5);

        let (answer, mut sender) = send(&heard, "/apis/apps.labhub.io/v1/webservices?watch=true", 200).await;
        assert_eq!((heard.age("webservices").as_secs(), heard.begun("webservices")), (0, 1));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(heard.age("webservices").as_secs(), 30);

        sender.send(Ok(Frame::data("a bookmark".into()))).await.unwrap();
        let mut body = answer.into_body().into_data_stream();
        assert_eq!(body.next().await.unwrap().unwrap(), "a bookmark");
        assert_eq!(heard.age("webservices").as_secs(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_namespaces_the_one_that_heard_least_counts_and_a_refusal_is_nothing_heard() {
        let heard = Arc::<Heard>::default();
        send(&heard, "/api/v1/namespaces/a/configmaps", 200).await;
        send(&heard, "/api/v1/namespaces/b/configmaps", 200).await;
        tokio::time::advance(Duration::from_secs(7)).await;
        send(&heard, "/api/v1/namespaces/a/configmaps", 200).await;
        send(&heard, "/api/v1/namespaces/b/configmaps?watch=true", 403).await;
        assert_eq!((heard.age("configmaps").as_secs(), heard.begun("configmaps")), (7, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_cannot_serve_is_not_heard() {
        let heard = Heard::default();
        tokio::time::advance(Duration::from_secs(9)).await;
        heard.answered(Some(503));
        heard.answered(None);
        assert_eq!(heard.silence().as_secs(), 9);
        heard.answered(Some(404));
        assert_eq!(heard.silence().as_secs(), 0);
    }
}
