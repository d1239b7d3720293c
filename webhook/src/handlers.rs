//! The two webhooks over HTTP: decode, decide, encode. What is decided is in `decide`, by pure functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, Request, Response};
use http_body_util::Full;
use tokio::time::timeout;

use crate::body::{Budget, Payload, RequestBody};
use crate::decide::Decision;
use crate::line::Line;
use crate::metrics::WebhookMetrics;
use crate::refusal::Refusal;
use crate::review::Review;
use crate::terms::{LatestTerms, Terms};
use crate::{answer, audit, deadline};

/// What both webhooks share: how much is worked on at a time.
#[derive(Debug)]
pub(crate) struct Gate {
    line: Line,
    bytes: Budget,
}

impl Gate {
    pub(crate) fn new(max_in_flight: usize) -> Self {
        Self { line: Line::new(max_in_flight), bytes: Budget::default() }
    }
}

/// One of the two webhooks.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) path: &'static str,
    pub(crate) decide: fn(&Review<'_>, &Terms) -> Decision,
    pub(crate) terms: LatestTerms,
    pub(crate) gate: Arc<Gate>,
    pub(crate) metrics: WebhookMetrics,
}

impl Endpoint {
    /// Answers one request.
    pub(crate) async fn admit(&self, request: Request<impl RequestBody>) -> Response<Full<Bytes>> {
        let _in_flight = self.metrics.start();
        let response = self.respond(request).await;
        self.metrics.finished(response.status());
        response
    }

    async fn respond(&self, request: Request<impl RequestBody>) -> Response<Full<Bytes>> {
        let (head, mut body) = request.into_parts();
        let allowance = deadline::allowance(&head.uri);
        let answer = timeout(allowance, self.try_respond(&head.headers, &mut body)).await;
        match answer.unwrap_or(Err(Refusal::Late(allowance))) {
            Ok(answer) => json(answer),
            Err(refusal) => {
                log_refusal(&refusal);
                let mut response = refusal.into_response();
                if !body.is_end_stream() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    self.gate.bytes.discard(body);
                }
                response
            }
        }
    }

    async fn try_respond(
        &self,
        headers: &HeaderMap,
        body: &mut impl RequestBody,
    ) -> Result<Vec<u8>, Refusal> {
        check_content_type(headers)?;
        let payload = self.gate.bytes.read(body).await?;
        let _turn = self.gate.line.turn().await?;
        #[cfg(feature = "test-hooks")]
        crate::hooks::before_decision().await;
        self.review(&payload)
    }

    /// From the body to the answer's. A panic ends the one request that caused it.
    fn review(&self, payload: &Payload<'_>) -> Result<Vec<u8>, Refusal> {
        catch_unwind(AssertUnwindSafe(|| {
            let review = Review::decode(payload.as_slice())?;
            let decision = (self.decide)(&review, &self.terms.now()?);
            self.metrics.decided(&decision);
            log(&review, &decision);
            Ok(answer::encode(&review, &decision)?)
        }))
        .unwrap_or(Err(Refusal::Panicked))
    }
}

/// Parameters such as a charset may follow; JSON has only one.
fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(Refusal::ContentType) }
}

fn json(answer: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Under overload a line per refused request would only add to it: the metrics count them.
fn log_refusal(refusal: &Refusal) {
    let status = refusal.status().as_u16();
    if matches!(refusal, Refusal::Busy | Refusal::Overloaded) {
        tracing::debug!(status, reason = %refusal, "refused a request");
    } else {
        tracing::warn!(status, reason = %refusal, "refused a request");
    }
}

/// One line per denial; permissions are told at level debug.
fn log(review: &Review<'_>, decision: &Decision) {
    let (uid, namespace, name) = (&*review.uid, &*review.namespace, &*review.name);
    let operation = review.operation;
    match decision {
        Decision::Deny { violations, .. } => {
            let rules = audit::ids(violations);
            tracing::info!(uid, namespace, name, ?operation, rules, "denied");
        }
        Decision::Unreadable { reason } => {
            tracing::info!(uid, namespace, name, ?operation, rules = "unreadable", reason, "denied");
        }
        Decision::Allow { defaulted, .. } => {
            tracing::debug!(uid, namespace, name, ?operation, ?defaulted, "allowed");
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::StatusCode;
    use prometheus_client::registry::Registry;
    use serde_json::json;
    use webservice_certs::Reloader;
    use webservice_ops::metrics::exposition;

    use super::*;
    use crate::decide::validate;
    use crate::metrics::Metrics;

    fn endpoint(
        decide: fn(&Review<'_>, &Terms) -> Decision,
        max_in_flight: usize,
        registry: &mut Registry,
    ) -> Endpoint {
        let metrics = Metrics::register(registry, Reloader::new("/does/not/exist").served());
        let (gate, metrics) = (Arc::new(Gate::new(max_in_flight)), metrics.webhook("/test"));
        Endpoint { path: "/test", decide, terms: LatestTerms::default(), gate, metrics }
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
        let endpoint = endpoint(panic, 1, &mut registry);
        for _ in 0..2 {
            let response = endpoint.admit(review()).await;
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(!response.headers().contains_key("retry-after"));
        }
        let text = exposition(&registry).unwrap();
        assert!(text.contains(r#"requests_total{webhook="/test",code="500"} 2"#), "{text}");
        assert!(text.contains(r#"requests_in_flight{webhook="/test"} 0"#), "{text}");
    }

    #[tokio::test]
    async fn a_review_beyond_the_limit_is_asked_to_come_back_in_whole_seconds() {
        let endpoint = endpoint(validate, 0, &mut Registry::default());
        let response = endpoint.admit(review()).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "1");
    }
}
