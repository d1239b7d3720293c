//! A client layer that keeps a watch from being begun over and over.
//!
//! kube's watcher takes up a watch that the server ended at once and without an error, and rightly so: that
//! is how every watch ends. But a server or proxy that ends watches as soon as they begin would then be asked
//! as fast as it answers. With this layer a resource's watches begin at least [`INTERVAL`] apart. The first
//! is not delayed, nor is one that lasted.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use tokio::time::{Instant, sleep_until};
use tower::{Layer, Service};

/// The shortest time between the beginnings of two watches of one path.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// See the [module](self). For `kube::client::ClientBuilder::with_layer`.
#[derive(Clone, Debug, Default)]
pub struct PaceWatches;

impl<S> Layer<S> for PaceWatches {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        Paced { inner, next_start: Arc::default() }
    }
}

/// What [`PaceWatches`] makes of a service.
#[derive(Clone, Debug)]
pub struct Paced<S> {
    inner: S,
    /// When the next watch of a path may begin. As many entries as resources are watched.
    next_start: Arc<Mutex<HashMap<String, Instant>>>,
}

impl<S, B> Service<Request<B>> for Paced<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let start = is_watch(&request).then(|| self.reserve(request.uri().path(), Instant::now()));
        // Sends nothing before it is polled.
        let response = self.inner.call(request);
        Box::pin(async move {
            if let Some(start) = start {
                sleep_until(start).await;
            }
            response.await
        })
    }
}

impl<S> Paced<S> {
    fn reserve(&self, path: &str, now: Instant) -> Instant {
        let mut next_start = self.next_start.lock().unwrap_or_else(PoisonError::into_inner);
        let start = next_start.get(path).map_or(now, |next| (*next).max(now));
        next_start.insert(path.to_owned(), start + INTERVAL);
        start
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt, service_fn};

    use super::*;

    /// When each of these requests, made one after the other, was sent; in whole seconds.
    async fn starts(uris: &[&str]) -> Vec<u64> {
        let began = Instant::now();
        let server =
            service_fn(move |_: Request<()>| async move { Ok::<_, Infallible>(began.elapsed().as_secs()) });
        let mut client = PaceWatches.layer(server);
        let mut starts = Vec::new();
        for uri in uris {
            let request = Request::get(*uri).body(()).unwrap();
            starts.push(client.ready().await.unwrap().call(request).await.unwrap());
        }
        starts
    }

    #[tokio::test(start_paused = true)]
    async fn watches_of_one_resource_begin_a_second_apart() {
        assert_eq!(starts(&["/api/v1/pods?&watch=true"; 3]).await, [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn other_requests_and_other_resources_are_not_delayed() {
        let uris =
            ["/api/v1/pods?&watch=true", "/api/v1/nodes?watch=true", "/api/v1/pods", "/api/v1/pods?x=1"];
        assert_eq!(starts(&uris).await, [0; 4]);
    }
}
