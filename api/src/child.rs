//! The child that a `WebService` asks for: a ConfigMap of known name, labels, owner and data.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;

use crate::constants::{API_VERSION, KIND, MANAGED_BY, MANAGED_BY_LABEL, NAME_LABEL, child_name};
use crate::resource::WebServiceSpec;

/// The data keys of the child, in a fixed order.
pub const DATA_KEYS: [&str; 3] = ["image", "replicas", "tier"];

/// The child's data, with the defaults filled in; in the order of [`DATA_KEYS`].
#[must_use]
pub fn data(spec: &WebServiceSpec) -> [(&'static str, String); 3] {
    [
        ("image", spec.image.clone()),
        ("replicas", spec.replicas().to_string()),
        ("tier", spec.tier().to_owned()),
    ]
}

/// The labels that mark the child of the `WebService` called `owner`.
#[must_use]
pub fn labels(owner: &str) -> [(&'static str, String); 2] {
    [(MANAGED_BY_LABEL, MANAGED_BY.to_owned()), (NAME_LABEL, owner.to_owned())]
}

/// The reference that makes a `WebService` the controller of its child.
///
/// `blockOwnerDeletion` is left out: it would need a right on the owner's finalizers, and the cleanup finalizer already
/// does what it is for.
#[must_use]
pub fn owner_reference(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        name: name.into(),
        uid: uid.into(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// The child that the `WebService` called `name` should have.
#[must_use]
pub fn desired(namespace: &str, name: &str, uid: &str, spec: &WebServiceSpec) -> ConfigMap {
    let owned = |(key, value): (&str, String)| (key.to_owned(), value);
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(child_name(name)),
            namespace: Some(namespace.into()),
            labels: Some(labels(name).map(owned).into()),
            owner_references: Some(vec![owner_reference(name, uid)]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from(data(spec).map(owned))),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_carries_defaults_for_what_was_not_given() {
        let spec = WebServiceSpec { image: "nginx:1.27".into(), ..WebServiceSpec::default() };
        let child = desired("shop", "checkout", "uid-1", &spec);
        let data = child.data.unwrap();
        assert_eq!(
            (data["image"].as_str(), data["replicas"].as_str(), data["tier"].as_str()),
            ("nginx:1.27", "1", "dev")
        );
    }

    #[test]
    fn the_child_names_its_owner_as_controller() {
        let child = desired("shop", "checkout", "uid-1", &WebServiceSpec::default());
        let owner = &child.metadata.owner_references.unwrap()[0];
        assert_eq!((owner.uid.as_str(), owner.controller), ("uid-1", Some(true)));
        assert_eq!(child.metadata.name.as_deref(), Some("checkout-desired"));
    }

    #[test]
    fn the_data_has_the_documented_keys() {
        assert_eq!(data(&WebServiceSpec::default()).map(|(key, _)| key), DATA_KEYS);
    }
}
