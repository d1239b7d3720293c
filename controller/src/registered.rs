//! Whether the API server calls the webhook: what somebody waits for who installs it.
//!
//! That pods are Ready says little: the registration, whom it trusts, the way through the Service and what every API server has
//! noticed of it come later. So the API server itself is asked, by two creations in dry run: a WebService that only the validating
//! webhook refuses, and one that only the mutating webhook completes. A handshake with the webhook would prove less (it is not the
//! API server's own) and need more: a name service, and a way through network policies that the controller has no use for. It
//! costs the right to create WebServices in one namespace.
//!
//! Once it was so, the question is not asked again: whether the webhook answers is for its own probes to say, and a
//! controller works without it.

use std::time::Duration;

use kube::api::PostParams;
use kube::core::{Request, Status};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_api::constants::{API_VERSION, FINALIZER, KIND};
use webservice_api::registration::validating_webhook;
use webservice_ops::probes::Check;

use crate::config::Config;
use crate::engine::lease::Role;
use crate::failure::with_sources;
use crate::leadership::Standing;
use crate::records::RawWebService;
use crate::registration::{Kind, Registrations};

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// What an answer may take: as long as a webhook may, and some more.
const PATIENCE: Duration = Duration::from_secs(15);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Both webhooks are called.
    Called,
    /// Not both, or not yet; why, in a sentence.
    NotCalled(String),
    /// Somebody else refuses what was to be created, so it cannot be told; the refusal.
    Unknown(String),
}

/// Asks the API server, by creations in `namespace` that are not stored.
pub async fn ask(client: &Client, namespace: &str) -> Answer {
    let no_path = "a".repeat(webservice_api::image::MAX_PATH + 1);
    let refused = match create(client, namespace, &no_path).await {
        Ok(_) => Answer::NotCalled("the API server does not call the validating webhook yet".to_owned()),
        Err(refusal) => judge(&refusal),
    };
    if refused != Answer::Called {
        return refused;
    }
    match create(client, namespace, "nginx:1.27").await {
        Ok(stored) if stored.finalizers().iter().any(|finalizer| finalizer == FINALIZER) => Answer::Called,
        Ok(_) => Answer::NotCalled("the API server does not call the mutating webhook yet".to_owned()),
        // A policy of the webhook's own may forbid it.
        Err(refusal) => judge(&refusal),
    }
}

/// What a creation came to that was not carried out.
enum Refusal {
    Status(Box<Status>),
    NoAnswer(String),
}

async fn create(client: &Client, namespace: &str, image: &str) -> Result<RawWebService, Refusal> {
    let name = format!("webhook-probe-{:08x}", fastrand::u32(..));
    let object = json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {"image": image},
    });
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let request = Request::new(RawWebService::url_path(&(), Some(namespace)));
    let request = request.create(&params, object.to_string().into());
    let request = request.map_err(|error| Refusal::NoAnswer(error.to_string()))?;
    match timeout(PATIENCE, client.request(request)).await {
        Ok(Ok(stored)) => Ok(stored),
        Ok(Err(kube::Error::Api(status))) => Err(Refusal::Status(status)),
        Ok(Err(error)) => Err(Refusal::NoAnswer(with_sources(&error))),
        Err(_) => Err(Refusal::NoAnswer(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

fn judge(refusal: &Refusal) -> Answer {
    let status = match refusal {
        Refusal::Status(status) => status,
        Refusal::NoAnswer(reason) => {
            return Answer::NotCalled(format!("failed to ask the API server: {reason}"));
        }
    };
    let message = status.message.clone();
    let is_ours = message.contains(&format!("admission webhook \"{}\" denied", validating_webhook()));
    let is_right_missing = status.code == 403 && message.contains("cannot create resource");
    match status.code {
        _ if is_ours => Answer::Called,
        400..=499 if !is_right_missing && !matches!(status.code, 401 | 404 | 408 | 429) => {
            Answer::Unknown(message)
        }
        _ => Answer::NotCalled(message),
    }
}

/// The check, where the webhook's registration has a name. A task of `tasks` asks for it by `client`, which must not be fenced:
/// every replica has to know.
///
/// A standby behind a leader passes all the same. The leader alone says whom to trust: one that waited for a leader that cannot
/// (it has the wrong CA mounted, say) would hold up the rollout that replaces that one.
#[must_use]
pub fn check(
    config: &Config,
    client: Client,
    standing: Standing,
    own_namespace: &str,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Option<Check> {
    let registrations = Registrations::new(&client, config.webhook.webhook_configuration.as_ref()?);
    let namespace = config.first_namespace().unwrap_or(own_namespace).to_owned();
    let (told, seen) = watch::channel(Err("not asked yet".to_owned()));
    let stop = stop.clone();
    tasks.spawn(async move {
        stop.run_until_cancelled(ask_until_called(&registrations, &client, &namespace, &told)).await;
    });
    Some(Check::telling("webhook-registered", move || tell(&standing.role(), &seen.borrow())))
}

fn tell(role: &Role, answer: &Result<(), String>) -> Result<String, String> {
    match (role, answer) {
        (_, Ok(())) => Ok(String::new()),
        (Role::Standby { holder: Some(_) }, Err(reason)) => {
            Ok(format!("not for a standby to wait for: {reason}"))
        }
        (_, Err(reason)) => Err(reason.clone()),
    }
}

async fn ask_until_called(
    registrations: &Registrations,
    client: &Client,
    namespace: &str,
    told: &watch::Sender<Result<(), String>>,
) {
    loop {
        let answer = match unregistered(registrations).await {
            Some(reason) => Answer::NotCalled(reason),
            None => ask(client, namespace).await,
        };
        match answer {
            Answer::Called => break tracing::info!("the API server calls the webhook"),
            // To wait for a policy to change would hold up an installation for ever.
            Answer::Unknown(refusal) => {
                break tracing::warn!(refusal, "failed to tell whether the API server calls the webhook");
            }
            Answer::NotCalled(reason) => drop(told.send_replace(Err(reason))),
        }
        sleep(PAUSE).await;
    }
    drop(told.send_replace(Ok(())));
}

/// What is missing in the registrations; none where both exist and say whom to trust.
async fn unregistered(registrations: &Registrations) -> Option<String> {
    let name = registrations.name();
    let found = match registrations.read().await {
        Ok(found) => found,
        Err(failure) => return Some(failure.to_string()),
    };
    Kind::ALL.into_iter().find_map(|kind| {
        let Some(registration) = found.iter().find(|registration| registration.kind == kind) else {
            return Some(format!("{} {name} does not exist", kind.as_str()));
        };
        let trusts =
            !registration.bundles.is_empty() && registration.bundles.iter().all(|pem| !pem.is_empty());
        (!trusts).then(|| format!("{} {name} has no caBundle yet", kind.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(code: u16, message: &str) -> Answer {
        judge(&Refusal::Status(Status::failure(message, "").with_code(code).boxed()))
    }

    #[test]
    fn a_refusal_of_our_webhook_shows_that_it_is_called() {
        let denied =
            format!("admission webhook \"{}\" denied the request: spec.image: …", validating_webhook());
        assert_eq!(judged(422, &denied), Answer::Called);
    }

    #[test]
    fn who_leads_waits_for_the_webhook_and_a_standby_behind_somebody_does_not() {
        let missing = Err("no caBundle yet".to_owned());
        let standby = |holder: Option<&str>| Role::Standby { holder: holder.map(Into::into) };
        tell(&Role::Leader, &missing).unwrap_err();
        tell(&standby(None), &missing).unwrap_err();
        assert!(tell(&standby(Some("other")), &missing).unwrap().contains("no caBundle yet"));
        tell(&Role::Leader, &Ok(())).unwrap();
    }

    #[test]
    fn a_refusal_of_somebody_else_tells_nothing() {
        for (code, message) in [
            (403, "webservices \"x\" is forbidden: ValidatingAdmissionPolicy 'team' denied request"),
            (400, "admission webhook \"policy.example.com\" denied the request"),
        ] {
            assert_eq!(judged(code, message), Answer::Unknown(message.to_owned()));
        }
    }

    #[test]
    fn a_webhook_that_cannot_be_called_and_a_question_that_cannot_be_asked_are_not_called() {
        for (code, message) in [
            (500, "failed calling webhook \"validate.webservices.apps.labhub.io\": connection refused"),
            (403, "User \"x\" cannot create resource \"webservices\" in API group"),
            (404, "the server could not find the requested resource"),
            (401, "Unauthorized"),
            (429, "too many requests"),
        ] {
            assert_eq!(judged(code, message), Answer::NotCalled(message.to_owned()));
        }
    }
}
