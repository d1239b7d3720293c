//! How many bytes the caches hold, counted from what they hold: keys, values, and the text that these own. What the allocator
//! and the nodes of the tree leave unused is not counted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use webservice_api::resource::Dependency;
use webservice_api::{WebServiceSpec, WebServiceStatus};

use crate::engine::{Cached, ObjectKey, Store};
use crate::records::{ChildRecord, Controller, WebServiceRecord};

/// The two counters of an `Arc`, before its value.
const ARC_HEADER: usize = 2 * size_of::<usize>();
/// What every object has in a store beside its text and its value: the key, and the version that the list and the watch last
/// showed.
const ENTRY: usize = size_of::<(ObjectKey, Cached<()>, u64)>();

/// What a value owns beyond its own size.
pub trait HeapSize {
    /// In bytes.
    fn heap_bytes(&self) -> usize;
}

/// The bytes that one object takes in a store.
#[must_use]
pub fn object_bytes<V: HeapSize>(key: &ObjectKey, value: &V) -> usize {
    let text = key.namespace().len() + "/".len() + key.name().len();
    ENTRY + ARC_HEADER + text + ARC_HEADER + size_of::<V>() + value.heap_bytes()
}

/// The bytes that all objects of a store take.
#[must_use]
pub fn store_bytes<V: HeapSize + PartialEq>(store: &Store<V>) -> usize {
    let mut bytes = 0;
    store.for_each(|key, value| bytes += object_bytes(key, value));
    bytes
}

impl HeapSize for WebServiceRecord {
    fn heap_bytes(&self) -> usize {
        let Self { uid, generation: _, is_deleting: _, finalizers, spec, status } = self;
        let spec = match spec {
            Ok(spec) => spec.heap_bytes(),
            Err(fault) => fault.len(),
        };
        let names: usize = finalizers.iter().map(|name| name.len()).sum();
        uid.len() + size_of_val(&**finalizers) + names + spec + status.heap_bytes()
    }
}

impl HeapSize for WebServiceSpec {
    fn heap_bytes(&self) -> usize {
        let Self { image, replicas: _, tier, depends_on, suspend: _ } = self;
        let names: usize = depends_on.iter().map(|dependency| dependency.name.capacity()).sum();
        image.capacity()
            + tier.as_ref().map_or(0, String::capacity)
            + depends_on.capacity() * size_of::<Dependency>()
            + names
    }
}

impl HeapSize for WebServiceStatus {
    fn heap_bytes(&self) -> usize {
        let Self { replicas: _, observed_generation: _, conditions } = self;
        let texts: usize = conditions.iter().map(HeapSize::heap_bytes).sum();
        conditions.capacity() * size_of::<Condition>() + texts
    }
}

impl HeapSize for Condition {
    fn heap_bytes(&self) -> usize {
        let Self { last_transition_time: _, message, observed_generation: _, reason, status, type_ } = self;
        [message, reason, status, type_].map(String::capacity).iter().sum()
    }
}

impl HeapSize for ChildRecord {
    fn heap_bytes(&self) -> usize {
        let Self { uid, is_deleting: _, must_be_replaced: _, controller, has_our_labels: _, data } = self;
        let values: usize = data.iter().flatten().map(|value| value.len()).sum();
        uid.len() + controller.heap_bytes() + values
    }
}

impl HeapSize for Controller {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::WebService { name, uid } => name.len() + uid.len(),
            Self::Other(name) => name.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{checkout, key};

    #[test]
    fn the_bytes_of_an_object_are_those_of_its_key_its_record_and_its_texts() {
        let caches = checkout().with_child().caches();
        // "shop/checkout", the uid "uid-of-checkout", one finalizer, "nginx:1.27" and "dev".
        let texts = 13 + 15 + webservice_api::constants::FINALIZER.len() + 10 + 3;
        let finalizers = size_of::<Box<str>>();
        let expected = ENTRY + 2 * ARC_HEADER + size_of::<WebServiceRecord>() + finalizers + texts;
        assert_eq!(store_bytes(&caches.webservices), expected);
    }

    #[test]
    fn a_longer_text_takes_as_many_bytes_more() {
        let bytes = |image: &str| {
            let image = serde_json::json!(image);
            store_bytes(&checkout().owner(|owner| owner["spec"]["image"] = image).caches().webservices)
        };
        assert_eq!(bytes("nginx:1.27.1234567890") - bytes("nginx:1.27"), 11);
    }

    #[test]
    fn a_child_takes_what_its_values_and_its_owner_take() {
        let caches = checkout().with_child().caches();
        let child = caches.children.get(&key("checkout-desired")).unwrap();
        let (text, bytes) = ("shop/checkout-desired".len(), child.value.heap_bytes());
        assert!(bytes > "nginx:1.27".len() + "checkout".len());
        assert_eq!(
            store_bytes(&caches.children),
            ENTRY + 2 * ARC_HEADER + size_of::<ChildRecord>() + text + bytes
        );
    }
}
