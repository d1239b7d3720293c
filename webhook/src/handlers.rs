//! The two webhooks over HTTP: decode, decide, encode. What is decided is in `decide`, by pure functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::body::{Budget, Payload, discard};
use crate::decide::Decision;
use crate::line::Line;
use crate::metrics::WebhookMetrics;
use crate::refusal::Refusal;
use crate::review::Review;
use crate::terms::{LatestTerms, Terms};
use crate::{answer, audit, deadline};

/// What both webhooks share: how much is worked on at a time.
#[derive(Debug, Clone)]
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
    pub(crate) decide: fn(&Review<'_>, &Terms) -> Decision,
    pub(crate) terms: LatestTerms,
    pub(crate) gate: Gate,
    pub(crate) metrics: WebhookMetrics,
}

/// Answers one request.
pub(crate) async fn admit(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let _in_flight = endpoint.metrics.start();
    let allowance = deadline::allowance(request.uri());
    let answer = tokio::time::timeout(allowance, endpoint.respond(request)).await;
    let response = answer.unwrap_or(Err(Refusal::Late(allowance))).unwrap_or_else(|refusal| {
        log_refusal(&refusal);
        refusal.into_response()
    });
    endpoint.metrics.finished(response.status());
    response
}

impl Endpoint {
    async fn respond(&self, request: Request) -> Result<Response, Refusal> {
        let (head, mut body) = request.into_parts();
        let _turn = match self.gate.line.turn().await {
            Ok(turn) => turn,
            Err(refusal) => {
                discard(body).await;
                return Err(refusal);
            }
        };
        let payload = match check_content_type(&head.headers) {
            Ok(()) => self.gate.bytes.read(&mut body).await,
            Err(refusal) => Err(refusal),
        };
        match payload {
            Ok(payload) => {
                #[cfg(feature = "test-hooks")]
                crate::hooks::before_decision().await;
                Ok(json(self.review(&payload)?))
            }
            Err(refusal) => {
                discard(body).await;
                Err(refusal)
            }
        }
    }

    /// From the body to the answer's. A panic ends the one request that caused it.
    fn review(&self, payload: &Payload) -> Result<Vec<u8>, Refusal> {
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

fn json(answer: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(answer));
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
