//! HTTP answers for what is no answerable review.

use std::error::Error;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::http::{Response, StatusCode};
use http_body_util::Full;

use crate::body::MAX_BODY;
use crate::review::DecodeError;

/// Why a request gets no review in return.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("failed to read the request: its content type must be application/json")]
    ContentType,
    #[error("failed to read the request: its body is longer than {} MiB", MAX_BODY / 1024 / 1024)]
    TooLarge,
    #[error("failed to read the request: {0}")]
    Interrupted(Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    Undecodable(#[from] DecodeError),
    #[error("too many reviews at a time; come back in a second")]
    Busy,
    #[error(
        "failed to answer within {0:?}, before the caller gives up: the request had not come in whole by then"
    )]
    Late(Duration),
    #[error("failed to decide: no usable policy has been read yet; the log and /readyz say why")]
    NoPolicy,
    #[error("too many reviews at a time, and none was done in time")]
    Overloaded,
    #[error("failed to write the answer: {0}")]
    Encode(#[from] serde_json::Error),
    #[error("failed to decide: the webhook has a fault; its log says more")]
    Panicked,
}

impl Refusal {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Interrupted(_) | Self::Undecodable(_) => StatusCode::BAD_REQUEST,
            Self::Busy | Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::Late(_) | Self::NoPolicy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Encode(_) | Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.to_string()));
        *response.status_mut() = self.status();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, text);
        // The API server comes back where it is told when. It is told so for load, and where another replica may be asked: a
        // fault would be met again, after a late answer no time is left, and what happens then is for failurePolicy to say.
        if matches!(self, Self::Busy | Self::NoPolicy) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
