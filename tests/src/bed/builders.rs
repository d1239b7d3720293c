//! Objects as tests write them.

use serde_json::{Value, json};
use webservice_api::constants::{API_VERSION, KIND};

/// The smallest valid WebService of this name: an image and nothing else.
#[must_use]
pub fn webservice(name: &str) -> WebServiceBuilder {
    WebServiceBuilder(json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"image": "nginx:1.27"},
    }))
}

/// A ConfigMap as somebody else would make it.
#[must_use]
pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"owner": "somebody else"}})
}

/// A WebService that is being written. It becomes JSON, so that it can also hold what no type allows.
#[derive(Clone, Debug)]
pub struct WebServiceBuilder(Value);

impl WebServiceBuilder {
    /// Sets `spec.image`.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        self.spec("image", image)
    }

    /// Sets `spec.replicas`.
    #[must_use]
    pub fn replicas(self, replicas: i32) -> Self {
        self.spec("replicas", replicas)
    }

    /// Sets `spec.tier`.
    #[must_use]
    pub fn tier(self, tier: &str) -> Self {
        self.spec("tier", tier)
    }

    /// Sets `spec.dependsOn` to these names.
    #[must_use]
    pub fn depends_on<const N: usize>(self, names: [&str; N]) -> Self {
        self.spec("dependsOn", names.map(|name| json!({"name": name})).to_vec())
    }

    /// Sets `spec.suspend` to true.
    #[must_use]
    pub fn suspended(self) -> Self {
        self.spec("suspend", true)
    }

    /// Sets any field of the spec to anything.
    #[must_use]
    pub fn spec(self, field: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.edit(|object| object["spec"][field] = value)
    }

    /// Sets `metadata.finalizers`.
    #[must_use]
    pub fn finalizers<const N: usize>(self, finalizers: [&str; N]) -> Self {
        self.edit(|object| object["metadata"]["finalizers"] = json!(finalizers.to_vec()))
    }

    /// Changes the object in any way.
    #[must_use]
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.0);
        self
    }
}

impl From<WebServiceBuilder> for Value {
    fn from(built: WebServiceBuilder) -> Self {
        built.0
    }
}
