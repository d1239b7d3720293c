//! What answers requests.

use std::error::Error;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tower::Service as _;

/// Answers the requests of a server. A router does, for probes and metrics; reviews have a service of their own, without
/// the allocations and the copies of a router's.
pub trait Service: Clone + Send + Sync + 'static {
    /// What answers consist of.
    type Body: HttpBody<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// The answer to one request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send;
}

impl Service for Router {
    type Body = Body;

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match self.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
