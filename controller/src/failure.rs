//! What can go wrong with a request, by what follows from it.

use std::time::Duration;

use kube::core::Status;
use webservice_api::conditions::Reason;

use crate::engine::{Retry, RetryHint, retry_after};

/// A failed request.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Failure {
    /// The object is no longer the one that was looked at; its event is on the way.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// There is no such object.
    #[error("the object does not exist")]
    NotFound,
    /// The API server knows no such resource, which says nothing about the object.
    #[error(
        "failed to {what}: the resource is not served ({message}); is its CustomResourceDefinition installed?"
    )]
    NotServed {
        /// The request.
        what: &'static str,
        /// What the API server says.
        message: String,
    },
    /// There is one of that name.
    #[error("the object exists already")]
    AlreadyExists,
    /// The namespace is being deleted, so nothing can be created in it; the deletion of its objects follows.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// RBAC, a quota or an admission policy says no. Only a person can lift it.
    #[error("failed to {what}: forbidden: {message}")]
    Forbidden {
        /// The request.
        what: &'static str,
        /// What the API server says.
        message: String,
    },
    /// The API server understands the request and refuses it.
    #[error("refused with {code}: {message}")]
    Rejected {
        /// HTTP status code.
        code: u16,
        /// What the API server says.
        message: String,
    },
    /// What was written was not there any more when the answer came: a policy, a webhook or another controller undoes it.
    #[error("somebody undoes what is written to {target}: {reason}")]
    Undone {
        /// What was written to.
        target: String,
        /// What it is like again.
        reason: String,
    },
    /// The API server asks for patience.
    #[error("throttled by the API server; it asks to wait {} s", after.as_secs())]
    Throttled {
        /// How long.
        after: Duration,
    },
    /// No usable answer; the request may have been carried out all the same.
    #[error("failed to {what}: {message}")]
    Unavailable {
        /// The request.
        what: &'static str,
        /// What was seen.
        message: String,
    },
}

impl Failure {
    /// Classifies an error of the client.
    #[must_use]
    pub fn from_kube(what: &'static str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(what, status),
            other => Self::Unavailable { what, message: with_sources(other) },
        }
    }

    fn from_status(what: &'static str, status: &Status) -> Self {
        let after = retry_after::asked(status);
        let is_terminating = status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
        let message = status.message.clone();
        match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => Self::AlreadyExists,
            (409, _) => Self::Conflict,
            (403, _) if is_terminating => Self::NamespaceTerminating,
            (403, _) => Self::Forbidden { what, message },
            (404, "NotFound") => Self::NotFound,
            (404, _) => Self::NotServed { what, message },
            (429 | 500..=599, _) if !after.is_zero() => Self::Throttled { after },
            // Server-side apply cannot read an object that its schema no longer accepts: no fault that passes by itself.
            (code @ 500, _) if message.contains("failed to create typed") => Self::Rejected { code, message },
            // The API server's own protection answers without a Status, so without a number.
            (429, _) => Self::Throttled { after: Duration::from_secs(1) },
            (code @ (400 | 405 | 406 | 413 | 415 | 422), _) => Self::Rejected { code, message },
            (code, reason) => Self::Unavailable { what, message: format!("{code} {reason}: {message}") },
        }
    }

    /// A fault of our own, which should not exist.
    #[must_use]
    pub fn internal(what: &'static str, error: &dyn std::fmt::Display) -> Self {
        Self::Unavailable { what, message: error.to_string() }
    }

    /// Whether it lasts until a person has acted, so that nothing is gained by waiting before it is told.
    #[must_use]
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::Rejected { .. } | Self::Undone { .. })
    }

    /// The word for the condition; none where nothing needs to be said, as an event will settle it.
    #[must_use]
    pub const fn word(&self) -> Option<Reason> {
        match self {
            Self::Conflict | Self::NotFound | Self::AlreadyExists | Self::NamespaceTerminating => None,
            Self::Forbidden { .. } | Self::Rejected { .. } => Some(Reason::Forbidden),
            Self::Undone { .. } => Some(Reason::Contested),
            Self::NotServed { .. } | Self::Throttled { .. } | Self::Unavailable { .. } => {
                Some(Reason::ApiError)
            }
        }
    }
}

impl RetryHint for Failure {
    fn retry(&self) -> Retry {
        match self {
            // Not `Forbidden`: a role that is granted a moment later should be noticed a moment later.
            Self::Rejected { .. } | Self::Undone { .. } => Retry::Slowly,
            Self::Throttled { after } => Retry::NotBefore(*after),
            _ => Retry::BackOff,
        }
    }
}

/// The error and what caused it, without saying the same twice.
#[must_use]
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: u16, reason: &str) -> Failure {
        let status = Status::failure("404 page not found", reason).with_code(code);
        Failure::from_kube("apply status", &kube::Error::Api(status.boxed()))
    }

    #[test]
    fn an_object_that_is_gone_is_not_a_resource_that_is_not_served() {
        assert_eq!(failure(404, "NotFound"), Failure::NotFound);
        let unserved = failure(404, "Failed to parse error data");
        assert_eq!(unserved.word(), Some(Reason::ApiError));
        assert!(unserved.to_string().contains("CustomResourceDefinition"), "{unserved}");
    }
}
