//! What is served where.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use webservice_api::constants::{MUTATE_PATH, VALIDATE_PATH};

use crate::decide::{self, Decision};
use crate::handlers::{Endpoint, Gate, admit};
use crate::metrics::Metrics;
use crate::probes::{self, Readiness};
use crate::review::Review;

/// The two webhooks.
pub(crate) fn admission(metrics: &Metrics, max_in_flight: usize) -> Router {
    let gate = Gate::new(max_in_flight);
    let mutating = endpoint(MUTATE_PATH, decide::mutate, &gate, metrics);
    let validating = endpoint(VALIDATE_PATH, decide::validate, &gate, metrics);
    mutating.merge(validating)
}

fn endpoint(
    path: &'static str,
    decide: fn(&Review<'_>) -> Decision,
    gate: &Gate,
    metrics: &Metrics,
) -> Router {
    let endpoint = Endpoint { decide, gate: gate.clone(), metrics: metrics.webhook(path) };
    Router::new().route(path, post(admit)).with_state(Arc::new(endpoint))
}

/// `/livez` says that the process answers, `/readyz` that it should be sent reviews.
pub(crate) fn probes(readiness: Readiness) -> Router {
    Router::new().route("/livez", get(livez)).route("/readyz", get(readyz)).with_state(readiness)
}

async fn livez(query: RawQuery) -> Response {
    probe("livez", &[], &query)
}

async fn readyz(State(readiness): State<Readiness>, query: RawQuery) -> Response {
    probe("readyz", &readiness.checks(), &query)
}

fn probe(name: &str, checks: &[probes::Check], RawQuery(query): &RawQuery) -> Response {
    let verbose =
        query.iter().flat_map(|query| query.split('&')).any(|pair| pair.split('=').next() == Some("verbose"));
    let (passed, text) = probes::report(name, checks, verbose);
    let status = if passed { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, text).into_response()
}

/// `/metrics`.
pub(crate) fn metrics(metrics: Arc<Metrics>) -> Router {
    Router::new().route("/metrics", get(scrape)).with_state(metrics)
}

async fn scrape(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use serde_json::json;
    use tower::ServiceExt;
    use webservice_certs::Reloader;

    use super::*;

    fn metrics_without_certificate() -> Metrics {
        Metrics::new(Reloader::new("/does/not/exist").served())
    }

    fn review() -> Request<Body> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE"},
        });
        Request::post("/test")
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(review.to_string()))
            .unwrap()
    }

    #[tokio::test]
    async fn a_panic_is_a_500_that_asks_for_no_second_try_and_spares_the_next_request() {
        fn panic(_: &Review<'_>) -> Decision {
            panic!("a fault")
        }
        let metrics = metrics_without_certificate();
        let router = endpoint("/test", panic, &Gate::new(1), &metrics);
        for _ in 0..2 {
            let response = router.clone().oneshot(review()).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(!response.headers().contains_key("retry-after"));
        }
        let text = metrics.encode().unwrap();
        assert!(text.contains(r#"requests_total{webhook="/test",code="500"} 2"#), "{text}");
        assert!(text.contains(r#"requests_in_flight{webhook="/test"} 0"#), "{text}");
    }

    #[tokio::test]
    async fn a_review_beyond_the_limit_is_asked_to_come_back_in_whole_seconds() {
        let router = endpoint("/test", decide::validate, &Gate::new(0), &metrics_without_certificate());
        let response = router.oneshot(review()).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[tokio::test]
    async fn checks_are_listed_where_the_query_says_so() {
        for (path, text) in [
            ("/livez", "ok"),
            ("/livez?verbose", "livez check passed\n"),
            ("/livez?a=b&verbose=true", "livez check passed\n"),
        ] {
            let readiness = Readiness {
                certificate: Reloader::new("/does/not/exist").served(),
                stopping: tokio_util::sync::CancellationToken::new(),
            };
            let response =
                probes(readiness).oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, text, "{path}");
        }
    }
}
