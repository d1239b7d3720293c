//! The webhook's registration with the API server: the mutating and the validating configuration, which share a name.

use futures::future::try_join;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::to_value;
use webservice_api::constants::FIELD_MANAGER;

use crate::failure::Failure;
use crate::writes::{call, is_failed_test, test};

/// Both configurations of one name.
#[derive(Clone)]
pub struct Registrations {
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    name: String,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The `MutatingWebhookConfiguration`.
    Mutating,
    /// The `ValidatingWebhookConfiguration`.
    Validating,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mutating, Self::Validating];

    /// The kind's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }
}

/// A configuration as it is stored.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Which of the two.
    pub kind: Kind,
    /// The `caBundle` of each of its webhooks, empty where there is none.
    pub bundles: Vec<Vec<u8>>,
    /// Its resourceVersion.
    pub version: String,
}

impl Registrations {
    /// Those called `name`.
    #[must_use]
    pub fn new(client: &Client, name: &str) -> Self {
        Self {
            mutating: Api::all(client.clone()),
            validating: Api::all(client.clone()),
            name: name.to_owned(),
        }
    }

    /// Their name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Those of the two that exist.
    pub async fn read(&self) -> Result<Vec<Registration>, Failure> {
        let both = try_join(read(&self.mutating, &self.name), read(&self.validating, &self.name)).await?;
        Ok([both.0, both.1].into_iter().flatten().collect())
    }

    /// Puts `bundle` (PEM) into every webhook of `seen`, if it is still as it was seen; gives it back as it is stored then.
    pub async fn publish(&self, seen: &Registration, bundle: &str) -> Result<Registration, Failure> {
        let bundle = to_value(ByteString(bundle.into()))
            .map_err(|error| Failure::internal("encode the caBundle", &error))?;
        let add = |index: usize| {
            let index = index.to_string();
            let path = PointerBuf::from_tokens(["webhooks", &index, "clientConfig", "caBundle"]);
            PatchOperation::Add(AddOperation { path, value: bundle.clone() })
        };
        let unchanged = test(PointerBuf::from_tokens(["metadata", "resourceVersion"]), seen.version.clone());
        let operations = [unchanged].into_iter().chain((0..seen.bundles.len()).map(add)).collect();
        let patch = Patch::<()>::Json(json_patch::Patch(operations));
        match seen.kind {
            Kind::Mutating => publish(&self.mutating, &self.name, &patch).await,
            Kind::Validating => publish(&self.validating, &self.name, &patch).await,
        }
    }

    /// Deletes both. One that is gone already is as good.
    pub async fn delete(&self) -> Result<(), Failure> {
        try_join(delete(&self.mutating, &self.name), delete(&self.validating, &self.name)).await.map(drop)
    }
}

/// What the two kinds have in common.
trait Configuration: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug {
    const KIND: Kind;

    fn client_configs(&self) -> Vec<&WebhookClientConfig>;
}

impl Configuration for MutatingWebhookConfiguration {
    const KIND: Kind = Kind::Mutating;

    fn client_configs(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    const KIND: Kind = Kind::Validating;

    fn client_configs(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

impl Registration {
    fn of<C: Configuration>(stored: &C) -> Self {
        let bundle = |config: &&WebhookClientConfig| config.ca_bundle.clone().map_or(Vec::new(), |pem| pem.0);
        Self {
            kind: C::KIND,
            bundles: stored.client_configs().iter().map(bundle).collect(),
            version: stored.meta().resource_version.clone().unwrap_or_default(),
        }
    }
}

async fn read<C: Configuration>(api: &Api<C>, name: &str) -> Result<Option<Registration>, Failure> {
    Ok(call("get the webhook's registration", api.get_opt(name)).await?.as_ref().map(Registration::of))
}

async fn publish<C: Configuration>(
    api: &Api<C>,
    name: &str,
    patch: &Patch<()>,
) -> Result<Registration, Failure> {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    match call("write the caBundle", api.patch(name, &params, patch)).await {
        Ok(stored) => Ok(Registration::of(&stored)),
        Err(Failure::Rejected { code: 422, message }) if is_failed_test(&message) => Err(Failure::Conflict),
        Err(failure) => Err(failure),
    }
}

async fn delete<C: Configuration>(api: &Api<C>, name: &str) -> Result<(), Failure> {
    match call("delete the webhook's registration", api.delete(name, &DeleteParams::default())).await {
        Ok(_) | Err(Failure::NotFound) => Ok(()),
        Err(failure) => Err(failure),
    }
}
