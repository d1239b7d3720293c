//! What is served where.

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use webservice_api::constants::{MUTATE_PATH, VALIDATE_PATH};

use crate::decide::{self, Decision};
use crate::handlers::{Endpoint, Gate, admit};
use crate::metrics::Metrics;
use crate::review::Review;
use crate::terms::{LatestTerms, Terms};

/// The two webhooks.
pub(crate) fn admission(metrics: &Metrics, max_in_flight: usize, terms: &LatestTerms) -> Router {
    let gate = Gate::new(max_in_flight);
    let mutating = endpoint(MUTATE_PATH, decide::mutate, &gate, metrics, terms);
    let validating = endpoint(VALIDATE_PATH, decide::validate, &gate, metrics, terms);
    mutating.merge(validating)
}

fn endpoint(
    path: &'static str,
    decide: fn(&Review<'_>, &Terms) -> Decision,
    gate: &Gate,
    metrics: &Metrics,
    terms: &LatestTerms,
) -> Router {
    let (gate, metrics, terms) = (gate.clone(), metrics.webhook(path), terms.clone());
    let endpoint = Endpoint { decide, terms, gate, metrics };
    Router::new().route(path, post(admit)).with_state(Arc::new(endpoint))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::header::CONTENT_TYPE;
    use axum::http::{Request, StatusCode};
    use prometheus_client::registry::Registry;
    use serde_json::json;
    use tower::ServiceExt;
    use webservice_certs::Reloader;
    use webservice_ops::metrics::exposition;

    use super::*;

    fn metrics(registry: &mut Registry) -> Metrics {
        Metrics::register(registry, Reloader::new("/does/not/exist").served())
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
        fn panic(_: &Review<'_>, _: &Terms) -> Decision {
            panic!("a fault")
        }
        let mut registry = Registry::default();
        let router =
            endpoint("/test", panic, &Gate::new(1), &metrics(&mut registry), &LatestTerms::default());
        for _ in 0..2 {
            let response = router.clone().oneshot(review()).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(!response.headers().contains_key("retry-after"));
        }
        let text = exposition(&registry).unwrap();
        assert!(text.contains(r#"requests_total{webhook="/test",code="500"} 2"#), "{text}");
        assert!(text.contains(r#"requests_in_flight{webhook="/test"} 0"#), "{text}");
    }

    #[tokio::test]
    async fn a_review_beyond_the_limit_is_asked_to_come_back_in_whole_seconds() {
        let metrics = metrics(&mut Registry::default());
        let router = endpoint("/test", decide::validate, &Gate::new(0), &metrics, &LatestTerms::default());
        let response = router.oneshot(review()).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "1");
    }
}
