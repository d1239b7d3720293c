//! How the webhook is registered with the API server: which requests reach it, and what happens when it is away.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;

use crate::constants::{GROUP, PLURAL, VERSION};

/// What one call may take, in seconds. The webhook answers in well under a millisecond; the rest is for a busy machine.
pub const TIMEOUT_SECONDS: i32 = 5;

/// Name of the webhook in the mutating configuration.
#[must_use]
pub fn mutating_webhook() -> String {
    format!("default.{PLURAL}.{GROUP}")
}

/// Name of the webhook in the validating configuration; the API server's refusals begin with it.
#[must_use]
pub fn validating_webhook() -> String {
    format!("validate.{PLURAL}.{GROUP}")
}

/// How the API server reaches one of the two paths.
pub trait Endpoint {
    /// The client configuration for a path of [`crate::constants`].
    fn client_config(&self, path: &str) -> WebhookClientConfig;
}

impl<F: Fn(&str) -> WebhookClientConfig> Endpoint for F {
    fn client_config(&self, path: &str) -> WebhookClientConfig {
        self(path)
    }
}

/// The mutating configuration called `name`. It fails open: the schema's defaults and the controller's guard do the same work.
#[must_use]
pub fn mutating(
    name: &str,
    endpoint: &impl Endpoint,
    namespaces: Option<LabelSelector>,
) -> MutatingWebhookConfiguration {
    MutatingWebhookConfiguration {
        metadata: named(name),
        webhooks: Some(vec![MutatingWebhook {
            name: mutating_webhook(),
            admission_review_versions: vec!["v1".into()],
            client_config: endpoint.client_config(crate::constants::MUTATE_PATH),
            failure_policy: Some("Ignore".into()),
            match_conditions: Some(vec![unless_deleting()]),
            match_policy: Some("Equivalent".into()),
            namespace_selector: namespaces,
            reinvocation_policy: Some("IfNeeded".into()),
            rules: Some(vec![creations_and_updates()]),
            side_effects: "None".into(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
            ..MutatingWebhook::default()
        }]),
    }
}

/// The validating configuration called `name`. It fails closed: nothing is stored that nobody has checked.
#[must_use]
pub fn validating(
    name: &str,
    endpoint: &impl Endpoint,
    namespaces: Option<LabelSelector>,
) -> ValidatingWebhookConfiguration {
    ValidatingWebhookConfiguration {
        metadata: named(name),
        webhooks: Some(vec![ValidatingWebhook {
            name: validating_webhook(),
            admission_review_versions: vec!["v1".into()],
            client_config: endpoint.client_config(crate::constants::VALIDATE_PATH),
            failure_policy: Some("Fail".into()),
            match_conditions: Some(vec![unless_deleting()]),
            match_policy: Some("Equivalent".into()),
            namespace_selector: namespaces,
            rules: Some(vec![creations_and_updates()]),
            side_effects: "None".into(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
            ..ValidatingWebhook::default()
        }]),
    }
}

/// Has a validating configuration asked about the scale subresource, too: for a policy with an overall maximum of replicas,
/// which `kubectl scale` and autoscalers would go past otherwise.
#[must_use]
pub fn checking_scale(mut configuration: ValidatingWebhookConfiguration) -> ValidatingWebhookConfiguration {
    for rules in configuration.webhooks.iter_mut().flatten().filter_map(|webhook| webhook.rules.as_mut()) {
        let resources = Some(vec![format!("{PLURAL}/scale")]);
        rules.push(RuleWithOperations { resources, ..creations_and_updates() });
    }
    configuration
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}

fn creations_and_updates() -> RuleWithOperations {
    let one = |word: &str| Some(vec![word.to_owned()]);
    RuleWithOperations {
        api_groups: one(GROUP),
        api_versions: one(VERSION),
        operations: Some(vec!["CREATE".into(), "UPDATE".into()]),
        resources: one(PLURAL),
        scope: Some("Namespaced".into()),
    }
}

/// Keeps objects on their way out away from the webhook, so that a finalizer can be removed while it is down. It looks at
/// the stored object: a new one may carry a deletionTimestamp that means nothing.
fn unless_deleting() -> MatchCondition {
    MatchCondition {
        name: "not-deleting".into(),
        expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)".into(),
    }
}
