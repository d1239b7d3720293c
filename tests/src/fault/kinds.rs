//! What can go wrong with a request.

use std::time::Duration;

use http::{Response, header};
use serde_json::{Value, json};

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not carried out, and ends so.
    Before(End),
    /// It is carried out; the answer is lost, and it ends so.
    After(End),
    /// It is carried out, and the answer breaks off in its middle. A watch does at its first event.
    Truncate,
    /// It is carried out. The answer begins, and nothing of its content comes before the fault is lifted: a connection that
    /// has died in silence.
    Silence,
    /// It is carried out. Every part of the answer's content comes so much later.
    Slow(Duration),
}

/// How a request ends without its own answer.
#[derive(Clone, Debug)]
pub enum End {
    /// By another answer.
    Answer(Answer),
    /// By a reset of the connection.
    Reset,
    /// Not for so long, then by a reset.
    Hang(Duration),
}

/// Longer than anybody waits for an answer.
const FOR_EVER: Duration = Duration::from_hours(1);

impl Fault {
    /// The request is not carried out but refused with a `Status` of this code.
    #[must_use]
    pub fn refused(code: u16, reason: &str) -> Self {
        Self::answered(Answer::status(code, reason))
    }

    /// The request is not carried out but answered so.
    #[must_use]
    pub const fn answered(answer: Answer) -> Self {
        Self::Before(End::Answer(answer))
    }

    /// The request is carried out, and answered as if it was not.
    #[must_use]
    pub fn denied(code: u16, reason: &str) -> Self {
        Self::After(End::Answer(Answer::status(code, reason)))
    }

    /// The request is carried out, and the connection is reset.
    #[must_use]
    pub const fn lost_reply() -> Self {
        Self::After(End::Reset)
    }

    /// The request is not carried out, and the connection is reset.
    #[must_use]
    pub const fn lost_request() -> Self {
        Self::Before(End::Reset)
    }

    /// The request is not carried out, and nothing ever comes.
    #[must_use]
    pub const fn hang() -> Self {
        Self::Before(End::Hang(FOR_EVER))
    }

    /// The request is carried out, and nothing ever comes.
    #[must_use]
    pub const fn hang_after_commit() -> Self {
        Self::After(End::Hang(FOR_EVER))
    }
}

/// An answer that the API server did not give.
#[derive(Clone, Debug)]
pub struct Answer {
    code: u16,
    retry_after: Option<u32>,
    body: Value,
}

impl Answer {
    /// A `Status`, as the API server words its refusals.
    #[must_use]
    pub fn status(code: u16, reason: &str) -> Self {
        Self { code, retry_after: None, body: status(code, reason) }
    }

    /// The answer to a watch that consists of one ERROR event.
    #[must_use]
    pub fn error_event(code: u16, reason: &str) -> Self {
        Self { code: 200, retry_after: None, body: json!({"type": "ERROR", "object": status(code, reason)}) }
    }

    /// A line of text, as the API server's protection against overload answers, and proxies do.
    #[must_use]
    pub fn text(code: u16, text: &str) -> Self {
        Self { code, retry_after: None, body: text.into() }
    }

    /// Asks to wait for so many seconds, in the header, and in the `Status` if it is one.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        if self.body.is_object() {
            self.body["details"] = json!({"retryAfterSeconds": seconds});
        }
        self
    }

    pub(super) fn response(self) -> http::Result<Response<String>> {
        let Self { code, retry_after, body } = self;
        let (kind, text) = match body {
            Value::String(text) => ("text/plain", text),
            status => ("application/json", format!("{status}\n")),
        };
        let mut response = Response::builder().status(code).header(header::CONTENT_TYPE, kind);
        if let Some(seconds) = retry_after {
            response = response.header(header::RETRY_AFTER, seconds);
        }
        response.body(text)
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": format!("injected: {reason}"),
    })
}
