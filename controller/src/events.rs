//! Events: what `kubectl describe` shows of transitions.
//!
//! They are sent beside the passes, from a bounded queue: an event that cannot be sent is dropped, never waited for. While
//! objects wait for their pass, few are sent: a person waits for the objects, and each event is one more write.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use webservice_api::conditions::Reason;
use webservice_api::constants::{API_VERSION, FIELD_MANAGER, KIND};

use crate::engine::ObjectKey;
use crate::failure::Failure;

/// Longest note of an event, in bytes, as the API server checks it.
const MAX_NOTE: usize = 1024;
/// Events that may wait to be sent.
const WAITING: usize = 1024;
/// How long the next event is held back while there is work that waits.
const HELD_BACK: Duration = Duration::from_millis(100);

/// Receives transitions.
pub trait Events: Send + Sync {
    /// The Ready condition of the WebService now says something else.
    fn transition(&self, key: &ObjectKey, uid: &str, ready: &Condition);
}

/// For those who tell nobody.
impl Events for () {
    fn transition(&self, _key: &ObjectKey, _uid: &str, _ready: &Condition) {}
}

/// Sends events to the API server.
pub struct Publisher {
    waiting: mpsc::Sender<(Event, ObjectReference)>,
}

impl Publisher {
    /// A publisher and the task that sends for it, until `stop`. `is_busy` tells whether there is work that waits.
    pub fn new(
        client: Client,
        is_busy: impl Fn() -> bool,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()>) {
        let reporter = Reporter { controller: FIELD_MANAGER.into(), instance: hostname() };
        let recorder = Recorder::new(client, reporter);
        let (waiting, mut next) = mpsc::channel::<(Event, ObjectReference)>(WAITING);
        let send = async move {
            while let Some(Some((event, about))) = stop.run_until_cancelled(next.recv()).await {
                if is_busy() {
                    _ = stop.run_until_cancelled(sleep(HELD_BACK)).await;
                }
                match recorder
                    .publish(&event, &about)
                    .await
                    .map_err(|error| Failure::from_kube("send an event", &error))
                {
                    // Where everything is being deleted nobody reads it any more.
                    Ok(()) | Err(Failure::NamespaceTerminating | Failure::NotFound) => {}
                    Err(failure) => tracing::warn!(reason = event.reason, about = about.name, "{failure}"),
                }
            }
        };
        (Self { waiting }, send)
    }
}

impl Events for Publisher {
    fn transition(&self, key: &ObjectKey, uid: &str, ready: &Condition) {
        let about = ObjectReference {
            api_version: Some(API_VERSION.into()),
            kind: Some(KIND.into()),
            namespace: Some(key.namespace().into()),
            name: Some(key.name().into()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        };
        if self.waiting.try_send((event(ready), about)).is_err() {
            tracing::debug!(%key, "dropped an event: too many are waiting");
        }
    }
}

/// The event for a transition to `ready`.
fn event(ready: &Condition) -> Event {
    let is_normal = [Reason::Reconciled, Reason::Suspended, Reason::Deleting, Reason::DependencyNotReady]
        .iter()
        .any(|reason| reason.as_str() == ready.reason);
    Event {
        type_: if is_normal { EventType::Normal } else { EventType::Warning },
        reason: ready.reason.clone(),
        note: Some(cut(&ready.message)),
        action: "Reconcile".into(),
        secondary: None,
    }
}

fn cut(message: &str) -> String {
    let mut end = message.len().min(MAX_NOTE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

/// The host's name: in a pod, the pod's.
#[must_use]
pub fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use webservice_api::conditions::{READY, State, condition};

    use super::*;

    #[test]
    fn a_note_is_cut_between_characters() {
        let ready = condition(READY, State::False, Reason::ApiError, &"é".repeat(600), 1);
        let note = event(&ready).note.unwrap();
        assert_eq!(note, "é".repeat(512));
    }

    #[test]
    fn a_conflict_is_a_warning() {
        let ready = condition(READY, State::False, Reason::ChildConflict, "x", 1);
        assert!(matches!(event(&ready).type_, EventType::Warning));
    }
}
