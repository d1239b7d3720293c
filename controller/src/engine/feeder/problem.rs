//! What keeps a watch from working, in words that say what to do, and how often it is told and tried again.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kube::Resource;
use kube::core::Status;
use kube::runtime::watcher;
use tokio::time::Instant;

use crate::engine::retry_after;
use crate::engine::store::{ObjectKey, Scope};

/// What a watch is about; names it in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The API group, empty for the core group.
    pub group: String,
    /// The resource, in the plural.
    pub resource: String,
    /// Where.
    pub scope: Scope,
}

impl Watched {
    /// The resource of type `K` in `scope`.
    #[must_use]
    pub fn of<K: Resource<DynamicType = ()>>(scope: Scope) -> Self {
        Self { group: K::group(&()).into_owned(), resource: K::plural(&()).into_owned(), scope }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, scope } = self;
        match group.as_str() {
            "" => write!(f, "{resource} in {scope}"),
            _ => write!(f, "{resource}.{group} in {scope}"),
        }
    }
}

/// The kinds of problems, a bounded set for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// 401: who we are is not known.
    Unauthorized,
    /// 403: the role lacks a verb.
    Forbidden,
    /// 404: the resource does not exist (yet).
    NotFound,
    /// 410: the version to resume from is too old; a full list follows.
    Expired,
    /// 429: too many requests.
    Throttled,
    /// Any other answer of the server that is an error.
    Server,
    /// No answer: refused, reset, cut short, timed out.
    Connection,
    /// An answer that could not be read.
    Decode,
    /// A full list made no progress.
    Stalled,
    /// Anything else.
    Other,
}

impl ProblemKind {
    /// Each of them.
    pub const ALL: [Self; 10] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::Expired,
        Self::Throttled,
        Self::Server,
        Self::Connection,
        Self::Decode,
        Self::Stalled,
        Self::Other,
    ];

    /// The word for a metric's label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Expired => "expired",
            Self::Throttled => "throttled",
            Self::Server => "server",
            Self::Connection => "connection",
            Self::Decode => "decode",
            Self::Stalled => "stalled",
            Self::Other => "other",
        }
    }

    fn of_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
                Self::Connection
            }
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Self::Decode,
            _ => Self::Other,
        }
    }

    fn of_status(status: &Status) -> Self {
        match status.code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            410 => Self::Expired,
            429 => Self::Throttled,
            _ => Self::Server,
        }
    }
}

/// One problem; its text is for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    text: String,
    /// How long the server asks to wait; zero where it does not.
    pub(super) asked: Duration,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Problem {
    pub(super) fn from_watcher(watched: &Watched, error: &watcher::Error) -> Self {
        let (verb, kind, reason) = match error {
            watcher::Error::InitialListFailed(error) => ("list", ProblemKind::of_error(error), reason(error)),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
                ("watch", ProblemKind::of_error(error), reason(error))
            }
            watcher::Error::WatchError(status) => {
                ("watch", ProblemKind::of_status(status), status.message.clone())
            }
            watcher::Error::NoResourceVersion => ("watch", ProblemKind::Decode, error.to_string()),
        };
        let text = format!("failed to {verb} {watched}: {}", advice(watched, verb, kind, &reason));
        Self { kind, text, asked: asked(error) }
    }

    pub(super) fn stalled(watched: &Watched) -> Self {
        let text = format!("failed to list {watched}: no progress, beginning again");
        Self { kind: ProblemKind::Stalled, text, asked: Duration::ZERO }
    }

    pub(super) fn unordered(watched: &Watched, key: &ObjectKey, version: &str) -> Self {
        let text = format!(
            "failed to watch {watched}: skipped {key}, whose resourceVersion {version:?} is not a number"
        );
        Self { kind: ProblemKind::Decode, text, asked: Duration::ZERO }
    }
}

/// What the server asks for in its refusal.
fn asked(error: &watcher::Error) -> Duration {
    use kube::Error::Api;
    let (watcher::Error::InitialListFailed(Api(status))
    | watcher::Error::WatchStartFailed(Api(status))
    | watcher::Error::WatchFailed(Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return Duration::ZERO;
    };
    retry_after::asked(status)
}

/// What the server said, or what kept it from saying anything, down to the cause.
fn reason(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_in_words = cause.to_string();
        if !reason.contains(&cause_in_words) {
            reason = format!("{reason}: {cause_in_words}");
        }
        source = cause.source();
    }
    reason
}

fn advice(watched: &Watched, verb: &str, kind: ProblemKind, reason: &str) -> String {
    let Watched { group, resource, scope } = watched;
    match kind {
        ProblemKind::Forbidden => {
            let role = match scope {
                Scope::Cluster => "a ClusterRole".to_owned(),
                Scope::Namespace(namespace) => format!("a Role in namespace {namespace}"),
            };
            format!(
                "not allowed; grant the verb {verb:?} on resource {resource:?} of API group {group:?} \
                 by {role} (the server says: {reason})"
            )
        }
        ProblemKind::NotFound => {
            "the server does not know this resource; waiting until its CustomResourceDefinition is installed"
                .to_owned()
        }
        ProblemKind::Expired => "the version to resume from has expired, listing again".to_owned(),
        _ => reason.to_owned(),
    }
}

/// How often the log repeats a problem that stays.
const REPEAT: Duration = Duration::from_mins(1);

/// Tells a problem when it is new, and then once a minute.
#[derive(Default)]
pub(super) struct Complaints {
    last_told: Option<(ProblemKind, Instant)>,
}

impl Complaints {
    /// Whether it was told.
    pub(super) fn tell(&mut self, problem: &Problem, now: Instant) -> bool {
        let is_due = self.is_due(problem.kind, now);
        if is_due {
            self.last_told = Some((problem.kind, now));
            if problem.kind == ProblemKind::Expired {
                tracing::info!("{problem}");
            } else {
                tracing::warn!("{problem}");
            }
        }
        is_due
    }

    /// An event came: the watch works.
    pub(super) fn end(&mut self, watched: &Watched) {
        if self.last_told.take().is_some() {
            tracing::info!("watching {watched} works again");
        }
    }

    fn is_due(&self, kind: ProblemKind, now: Instant) -> bool {
        self.last_told.is_none_or(|(told, when)| told != kind || now - when >= REPEAT)
    }
}

/// The pause before the next attempt: from half a second, doubling, to half a minute, each drawn from its
/// upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    failures: u32,
    length: Duration,
    /// When the pause is or was over.
    over: Instant,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(500);
    pub(super) const LONGEST: Duration = Duration::from_secs(30);
    /// So long without a failure and the next one is a first one. A success does not count, for a list may
    /// succeed every time and its watch fail every time.
    const CALM: Duration = Duration::from_mins(1);

    pub(super) fn new(now: Instant) -> Self {
        Self { failures: 0, length: Duration::ZERO, over: now }
    }

    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// The pause after a failure at `now`; `jitter` is in `[0, 1)`.
    #[must_use]
    pub(super) fn next(self, now: Instant, jitter: f64) -> Self {
        let is_calm = now.saturating_duration_since(self.over) >= Self::CALM;
        let failures = if is_calm { 1 } else { self.failures.saturating_add(1) };
        let step = Self::FIRST.saturating_mul(2_u32.saturating_pow(failures - 1)).min(Self::LONGEST);
        let length = step.mul_f64(0.5 + 0.5 * jitter);
        Self { failures, length, over: now + length }
    }
}
