//! A span around every pass, for those who collect them (`--features otlp`). At the level of debug, so that the log does not
//! repeat them on every line.

use tracing::{Instrument as _, Span, debug_span, field};

use crate::decide::Decision;
use crate::engine::{Attempt, ObjectKey, Outcome, Reconciler};

/// A reconciler whose passes are spans: which object, the last decision, and how it ended. A pass that panicked or was dropped
/// at its deadline has no outcome.
pub struct Traced<R>(pub R);

impl<R: Reconciler<Key = ObjectKey>> Reconciler for Traced<R> {
    type Key = ObjectKey;
    type Error = R::Error;

    async fn reconcile(&self, key: &ObjectKey, attempt: &Attempt) -> Result<Outcome, R::Error> {
        let span = debug_span!(
            "pass",
            namespace = key.namespace(),
            name = key.name(),
            failures = attempt.failures,
            decision = field::Empty,
            outcome = field::Empty,
        );
        let result = self.0.reconcile(key, attempt).instrument(span.clone()).await;
        match &result {
            Ok(outcome) => span.record("outcome", field::debug(outcome)),
            Err(error) => span.record("outcome", field::display(error)),
        };
        result
    }
}

/// Notes a decision on the span of the present pass.
pub(crate) fn decided(decision: &Decision) {
    Span::current().record("decision", decision.action.as_str());
}

#[cfg(test)]
mod tests {
    use std::fmt::{self, Write as _};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::time::Instant;
    use tracing::span::Record;
    use tracing_subscriber::layer::{Context, SubscriberExt};
    use tracing_subscriber::registry::LookupSpan;
    use tracing_subscriber::{Layer, Registry};

    use super::*;
    use crate::engine::RetryHint;

    /// Writes down what is recorded of spans.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<String>>);

    impl tracing::field::Visit for Notes {
        fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
            write!(self.0.lock().unwrap(), "{field}={value:?} ").unwrap();
        }
    }

    impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
        fn on_new_span(
            &self,
            span: &tracing::span::Attributes<'_>,
            _: &tracing::span::Id,
            _: Context<'_, S>,
        ) {
            span.record(&mut self.clone());
        }

        fn on_record(&self, _: &tracing::span::Id, values: &Record<'_>, _: Context<'_, S>) {
            values.record(&mut self.clone());
        }
    }

    struct Waits;

    #[derive(Debug, thiserror::Error)]
    #[error("nothing")]
    struct Never;

    impl RetryHint for Never {}

    impl Reconciler for Waits {
        type Key = ObjectKey;
        type Error = Never;

        async fn reconcile(&self, _: &ObjectKey, _: &Attempt) -> Result<Outcome, Never> {
            Span::current().record("decision", "requeue");
            Ok(Outcome::RequeueAfter(Duration::from_secs(5)))
        }
    }

    #[tokio::test]
    async fn a_pass_tells_its_object_its_decision_and_its_outcome() {
        let notes = Notes::default();
        let _guard = tracing::subscriber::set_default(Registry::default().with(notes.clone()));
        let attempt = Attempt { deadline: Instant::now(), failures: 2, failing_since: None };
        Traced(Waits).reconcile(&ObjectKey::new("shop", "checkout"), &attempt).await.unwrap();
        let told = notes.0.lock().unwrap();
        assert_eq!(
            *told,
            "namespace=\"shop\" name=\"checkout\" failures=2 decision=\"requeue\" outcome=RequeueAfter(5s) "
        );
    }
}
