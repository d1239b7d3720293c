//! Who may read: a layer that asks somebody else about the bearer token of every request, and remembers the answers for a
//! moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long an answer counts: a right that is taken away or given is noticed within this time.
pub const REMEMBERED: Duration = Duration::from_secs(30);
/// Tokens that are remembered. There are one or two scrapers; the rest is for those who guess.
const MOST_REMEMBERED: usize = 64;
/// Tokens that are asked about at a time, so that guessing here is no flood of requests there.
const MOST_QUESTIONS: usize = 4;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its owner may read.
    Allowed,
    /// Its owner, who is named, may not.
    Forbidden(String),
    /// It is nobody's.
    Unknown,
}

/// Knows tokens.
pub trait Reviewer: Send + Sync + 'static {
    /// Whether the owner of `token` may read; the error says why that cannot be told now.
    fn review(&self, token: &str) -> impl Future<Output = Result<Verdict, String>> + Send;
}

/// `router` behind a layer that lets in whom `reviewer` allows. The others get 401, 403, or 503 where nobody knows, with a
/// sentence. `remedy` says what gives the right.
pub fn protect(router: Router, reviewer: impl Reviewer, remedy: &'static str) -> Router {
    let gate = Gate { reviewer, remedy, known: Mutex::default(), questions: Semaphore::new(MOST_QUESTIONS) };
    router.layer(from_fn_with_state(Arc::new(gate), admit))
}

struct Gate<R> {
    reviewer: R,
    remedy: &'static str,
    known: Mutex<Known>,
    questions: Semaphore,
}

async fn admit<R: Reviewer>(State(gate): State<Arc<Gate<R>>>, request: Request, next: Next) -> Response {
    match gate.check(request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl<R: Reviewer> Gate<R> {
    async fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let token = bearer_token(headers).ok_or(Refusal::NoToken)?;
        match self.verdict(token).await? {
            Verdict::Allowed => Ok(()),
            Verdict::Forbidden(user) => Err(Refusal::Forbidden { user, remedy: self.remedy }),
            Verdict::Unknown => Err(Refusal::UnknownToken),
        }
    }

    async fn verdict(&self, token: &str) -> Result<Verdict, Refusal> {
        let digest = Sha256::digest(token).into();
        if let Some(verdict) = self.known().get(&digest) {
            return Ok(verdict);
        }
        let _place = self.questions.try_acquire().map_err(|_| Refusal::Busy)?;
        let answer = timeout(PATIENCE, self.reviewer.review(token)).await;
        let verdict = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let verdict = verdict.map_err(Refusal::NotKnown)?;
        self.known().insert(digest, verdict.clone());
        Ok(verdict)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See RFC 6750; the name of the scheme may have either case.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Answers by the digest of the token, so that none is kept that could be used. All count equally long, so the first is always
/// the oldest.
#[derive(Default)]
struct Known(VecDeque<(Instant, [u8; 32], Verdict)>);

impl Known {
    fn get(&mut self, digest: &[u8; 32]) -> Option<Verdict> {
        while self.0.pop_front_if(|(since, ..)| since.elapsed() >= REMEMBERED).is_some() {}
        self.0.iter().find(|(_, known, _)| known == digest).map(|(.., verdict)| verdict.clone())
    }

    fn insert(&mut self, digest: [u8; 32], verdict: Verdict) {
        if self.0.len() == MOST_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((Instant::now(), digest, verdict));
    }
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("failed to authenticate: there is no token; send the header Authorization: Bearer TOKEN")]
    NoToken,
    #[error(
        "failed to authenticate: the API server does not know the token, or it has expired; send a new one"
    )]
    UnknownToken,
    #[error("failed to authorize: {user} may not read this; {remedy}")]
    Forbidden { user: String, remedy: &'static str },
    #[error("failed to check the token: {0}; try again")]
    NotKnown(String),
    #[error("failed to check the token: too many others are being checked; try again")]
    Busy,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let text = format!("{self}\n");
        match self {
            Self::NoToken | Self::UnknownToken => {
                (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response()
            }
            Self::Forbidden { .. } => (StatusCode::FORBIDDEN, text).into_response(),
            Self::NotKnown(_) => {
                tracing::warn!("{self}");
                (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
            }
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        }
    }
}

#[cfg(test)]
mod tests;
