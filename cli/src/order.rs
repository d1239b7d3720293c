//! In which order a pass over many goes: what others wait for comes first.

use std::collections::{BTreeMap, BTreeSet};

use webservice_controller::engine::{ObjectKey, Store};
use webservice_controller::records::WebServiceRecord;

/// All keys, each after those it depends on, otherwise by name. Those on a cycle, and those behind one, come last.
pub(crate) fn dependencies_first(webservices: &Store<WebServiceRecord>) -> Vec<ObjectKey> {
    let mut left: BTreeMap<ObjectKey, Vec<ObjectKey>> = BTreeMap::new();
    webservices.for_each(|key, record| {
        left.insert(key.clone(), record.dependencies().map(|name| key.sibling(name)).collect());
    });
    let mut ordered = Vec::with_capacity(left.len());
    loop {
        let waits = |dependencies: &[ObjectKey]| dependencies.iter().any(|key| left.contains_key(key));
        let free = left.iter().filter(|(_, dependencies)| !waits(dependencies));
        let free: BTreeSet<_> = free.map(|(key, _)| key.clone()).collect();
        if free.is_empty() {
            ordered.extend(left.into_keys());
            return ordered;
        }
        left.retain(|key, _| !free.contains(key));
        ordered.extend(free);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{caches, webservice};

    /// The order of WebServices of which each is written as a name and what it depends on.
    fn order(of: &[(&str, &[&str])]) -> Vec<String> {
        let webservices = of.iter().map(|(name, dependencies)| {
            let dependencies: Vec<_> = dependencies.iter().map(|name| json!({"name": name})).collect();
            webservice(name, json!({"image": "nginx:1.27", "dependsOn": dependencies}))
        });
        let ordered = dependencies_first(&caches(webservices).webservices);
        ordered.iter().map(|key| key.name().to_owned()).collect()
    }

    #[test]
    fn those_that_wait_for_nothing_come_by_name() {
        assert_eq!(order(&[("b", &[]), ("c", &[]), ("a", &[])]), ["a", "b", "c"]);
    }

    #[test]
    fn what_others_wait_for_comes_first() {
        assert_eq!(order(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]), ["c", "b", "a"]);
    }

    #[test]
    fn what_does_not_exist_holds_nobody_up() {
        assert_eq!(order(&[("a", &["missing"]), ("b", &[])]), ["a", "b"]);
    }

    #[test]
    fn a_cycle_and_those_behind_it_come_last_and_nobody_is_left_out() {
        assert_eq!(order(&[("a", &["b"]), ("b", &["a"]), ("c", &["a"]), ("d", &[])]), ["d", "a", "b", "c"]);
    }
}
