//! What is served where.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::header::{ALLOW, HeaderValue};
use axum::http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use webservice_api::constants::{MUTATE_PATH, VALIDATE_PATH};
use webservice_ops::server::Service;

use crate::decide;
use crate::handlers::{Endpoint, Gate};
use crate::metrics::Metrics;
use crate::terms::LatestTerms;

/// The two webhooks.
#[derive(Debug, Clone)]
pub(crate) struct Admission(Arc<[Endpoint; 2]>);

impl Admission {
    pub(crate) fn new(metrics: &Metrics, max_in_flight: usize, terms: &LatestTerms) -> Self {
        let gate = Arc::new(Gate::new(max_in_flight));
        let endpoint = |path, decide| {
            let (gate, metrics, terms) = (Arc::clone(&gate), metrics.webhook(path), terms.clone());
            Endpoint { path, decide, terms, gate, metrics }
        };
        Self(Arc::new([endpoint(MUTATE_PATH, decide::mutate), endpoint(VALIDATE_PATH, decide::validate)]))
    }
}

impl Service for Admission {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        match self.0.iter().find(|endpoint| endpoint.path == path) {
            Some(endpoint) if request.method() == Method::POST => endpoint.admit(request).await,
            Some(_) => not_allowed(),
            None => empty(StatusCode::NOT_FOUND),
        }
    }
}

fn not_allowed() -> Response<Full<Bytes>> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
