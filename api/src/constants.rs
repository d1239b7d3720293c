//! Every name that manifests, alerts, people and other programs depend on. Nothing here is renamed.

/// API group of the resource.
pub const GROUP: &str = "apps.labhub.io";
/// The served and stored version.
pub const VERSION: &str = "v1";
/// `group/version`, as manifests write it.
pub const API_VERSION: &str = "apps.labhub.io/v1";
/// Kind of the resource.
pub const KIND: &str = "WebService";
/// Plural name, as in URLs and RBAC rules.
pub const PLURAL: &str = "webservices";

/// The finalizer that holds a `WebService` until its child is confirmed gone.
pub const FINALIZER: &str = "webservice.labhub.io/cleanup";
/// The finalizer by which the garbage collector announces that it will release the children instead of deleting them.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// Field manager of everything the controller writes.
pub const FIELD_MANAGER: &str = "webservice-controller";

/// Label on the child that says who manages it; its watch selects on it.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = FIELD_MANAGER;
/// Label on the child that names its `WebService`.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// Label selector of the controller's child watch.
pub const CHILD_SELECTOR: &str = "app.kubernetes.io/managed-by=webservice-controller";

/// Path of the mutating webhook, by the kubebuilder convention.
pub const MUTATE_PATH: &str = "/mutate-apps-labhub-io-v1-webservice";
/// Path of the validating webhook, by the kubebuilder convention.
pub const VALIDATE_PATH: &str = "/validate-apps-labhub-io-v1-webservice";

/// Longest allowed name of a `WebService`: it becomes a label value of the child.
pub const MAX_NAME: usize = 63;
/// Longest allowed `spec.image`, in bytes.
pub const MAX_IMAGE: usize = 1024;
/// Longest allowed `spec.tier`, a DNS label.
pub const MAX_TIER: usize = 63;
/// Most entries in `spec.dependsOn`.
pub const MAX_DEPENDENCIES: usize = 32;

/// Name of the child ConfigMap of the `WebService` called `name`.
#[must_use]
pub fn child_name(name: &str) -> String {
    format!("{name}{CHILD_SUFFIX}")
}

/// What [`child_name`] appends.
pub const CHILD_SUFFIX: &str = "-desired";

/// The `WebService` whose child has the name `child`, if the name has the form of one.
#[must_use]
pub fn owner_name(child: &str) -> Option<&str> {
    child.strip_suffix(CHILD_SUFFIX).filter(|name| !name.is_empty())
}
