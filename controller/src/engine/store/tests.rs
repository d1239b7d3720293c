use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;
use tokio::time::timeout;

use super::*;

type Values = Store<&'static str>;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

fn store() -> Values {
    Store::new([Scope::Cluster])
}

/// A store whose full list contained these objects.
fn listed(objects: &[(&str, u64, &'static str)]) -> Values {
    let store = store();
    relist(&store, objects);
    store
}

fn relist(store: &Values, objects: &[(&str, u64, &'static str)]) -> Vec<(ObjectKey, Change<&'static str>)> {
    store.begin_list(&Scope::Cluster);
    for (name, version, value) in objects {
        store.listed(key(name), *version, *value);
    }
    store.end_list(&Scope::Cluster)
}

#[test]
fn a_key_is_written_as_namespace_and_name() {
    let key = ObjectKey::new("shop", "checkout");
    assert_eq!((key.namespace(), key.name(), key.to_string()), ("shop", "checkout", "shop/checkout".into()));
    assert_eq!("shop/checkout".parse(), Ok(key.clone()));
    assert_eq!(key.sibling("cart"), ObjectKey::new("shop", "cart"));
}

#[test]
fn what_is_no_key_is_refused() {
    for text in ["checkout", "shop/", "a/b/c", ""] {
        assert_eq!(text.parse::<ObjectKey>(), Err(NotAKey(text.into())), "{text}");
    }
}

#[test]
fn a_change_tells_what_was_and_what_is() {
    let store = listed(&[]);
    assert_eq!(store.applied(key("a"), 1, "x"), Some(Change::Added("x".into())));
    assert_eq!(store.applied(key("a"), 2, "y"), Some(Change::Updated { old: "x".into(), new: "y".into() }));
    assert_eq!(store.deleted(&key("a"), 3), Some(Change::Deleted("y".into())));
    assert!(store.is_empty());
}

#[test]
fn an_unchanged_value_is_no_change_but_has_the_new_version() {
    let store = listed(&[("a", 1, "x")]);
    assert_eq!(store.applied(key("a"), 2, "x"), None);
    assert_eq!(store.get(&key("a")).unwrap().version, 2);
}

#[test]
fn an_event_older_than_what_is_stored_is_ignored() {
    let store = listed(&[("a", 5, "new")]);
    assert_eq!(store.applied(key("a"), 4, "old"), None);
    assert_eq!(store.deleted(&key("a"), 4), None);
    let stored = store.get(&key("a")).unwrap();
    assert_eq!((stored.version, *stored.value), (5, "new"));
}

#[test]
fn a_list_of_the_past_does_not_take_an_object_back() {
    let store = listed(&[("a", 5, "new")]);
    assert_eq!(relist(&store, &[("a", 4, "old")]), []);
    assert_eq!(*store.get(&key("a")).unwrap().value, "new");
}

#[test]
fn a_relist_finds_missed_deletions() {
    let store = listed(&[("a", 1, "x"), ("b", 2, "x"), ("c", 3, "x")]);
    let gone = relist(&store, &[("b", 2, "x")]);
    assert_eq!(gone, [(key("a"), Change::Deleted("x".into())), (key("c"), Change::Deleted("x".into()))]);
    assert_eq!(store.len(), 1);
}

#[test]
fn a_list_that_is_broken_off_deletes_nothing() {
    let store = listed(&[("a", 1, "x"), ("b", 2, "x")]);
    store.begin_list(&Scope::Cluster);
    store.listed(key("a"), 1, "x");
    assert_eq!(store.len(), 2);
    assert_eq!(relist(&store, &[("a", 1, "x"), ("b", 2, "x")]), []);
}

#[test]
fn what_is_added_after_a_list_survives_its_end() {
    let store = listed(&[("a", 1, "x")]);
    store.applied(key("b"), 2, "x");
    assert_eq!(relist(&store, &[("a", 1, "x"), ("b", 2, "x")]), []);
}

#[test]
fn the_relist_of_one_namespace_leaves_the_others_alone() {
    let scopes = ["shop", "bank"].map(|namespace| Scope::Namespace(namespace.into()));
    let store = Store::new(scopes.clone());
    for scope in &scopes {
        store.begin_list(scope);
    }
    store.listed(ObjectKey::new("shop", "a"), 1, "x");
    store.listed(ObjectKey::new("bank", "a"), 2, "x");
    store.end_list(&scopes[0]);
    assert!(!store.is_synced(), "the second namespace was not listed yet");
    store.end_list(&scopes[1]);
    assert!(store.is_synced());

    store.begin_list(&scopes[0]);
    let gone = store.end_list(&scopes[0]);
    assert_eq!(gone, [(ObjectKey::new("shop", "a"), Change::Deleted("x".into()))]);
    assert!(store.get(&ObjectKey::new("bank", "a")).is_some());
}

#[test]
fn a_namespace_is_visited_without_its_neighbours() {
    let store = listed(&[]);
    for (namespace, name) in [("shop", "b"), ("shop", "a"), ("shop-2", "x"), ("sho", "x"), ("shop0", "x")] {
        store.applied(ObjectKey::new(namespace, name), 1, "x");
    }
    let mut seen = Vec::new();
    store.for_each_in("shop", |key, _| seen.push(key.to_string()));
    assert_eq!(seen, ["shop/a", "shop/b"]);
}

#[tokio::test(start_paused = true)]
async fn synced_is_waited_for() {
    let store = store();
    assert!(store.wait_synced_in(&Scope::Cluster).now_or_never().is_none());
    relist(&store, &[]);
    timeout(Duration::from_secs(1), store.wait_synced_in(&Scope::Cluster)).await.unwrap();
}

mod positions {
    use super::*;

    #[test]
    fn a_write_is_passed_when_its_own_event_came() {
        let store = listed(&[("a", 1, "x")]);
        let position = store.position(&key("a"));
        assert!(!store.has_passed(&key("a"), 5, position));
        store.applied(key("a"), 5, "x");
        assert!(store.has_passed(&key("a"), 5, position));
    }

    #[test]
    fn a_write_is_passed_when_a_later_event_of_any_object_came() {
        let store = listed(&[("a", 1, "x")]);
        let position = store.position(&key("a"));
        store.deleted(&key("b"), 6);
        assert!(store.has_passed(&key("a"), 5, position));
    }

    #[test]
    fn a_write_is_passed_when_a_list_that_began_after_it_is_complete() {
        let store = listed(&[]);
        store.begin_list(&Scope::Cluster);
        let during = store.position(&key("a"));
        store.end_list(&Scope::Cluster);
        assert!(!store.has_passed(&key("a"), 5, during), "this list may not contain the write");
        relist(&store, &[]);
        assert!(store.has_passed(&key("a"), 5, during));
    }

    #[test]
    fn objects_of_an_incomplete_list_say_nothing_about_others() {
        let store = listed(&[]);
        store.begin_list(&Scope::Cluster);
        let position = store.position(&key("a"));
        store.listed(key("z"), 9, "x");
        assert!(!store.has_passed(&key("a"), 5, position));
    }

    #[test]
    fn an_object_is_left_when_it_is_gone_or_has_a_successor() {
        let store = listed(&[("a", 5, "x")]);
        assert!(!store.has_left(&key("a"), 5));
        store.applied(key("a"), 8, "successor");
        assert!(store.has_left(&key("a"), 5));
        store.deleted(&key("a"), 9);
        assert!(store.has_left(&key("a"), 8));
    }
}

/// What a server does: each operation has the next version.
#[derive(Clone, Debug)]
enum Operation {
    Put(u8, &'static str),
    Delete(u8),
    /// The watch breaks: nothing is delivered until a full list.
    Break,
    Relist,
}

fn operation() -> impl Strategy<Value = Operation> {
    let value = prop_oneof![Just("x"), Just("y"), Just("z")];
    prop_oneof![
        4 => (0..5_u8, value).prop_map(|(name, value)| Operation::Put(name, value)),
        2 => (0..5_u8).prop_map(Operation::Delete),
        1 => Just(Operation::Break),
        1 => Just(Operation::Relist),
    ]
}

proptest! {
    #[test]
    fn after_a_list_the_store_is_what_the_server_has_and_every_difference_was_told(
        operations in proptest::collection::vec(operation(), 0..60)
    ) {
        let mut server = BTreeMap::new();
        let mut told = BTreeMap::new();
        let mut tell = |key: ObjectKey, change: Option<Change<&'static str>>| match change {
            Some(Change::Added(new) | Change::Updated { new, .. }) => { told.insert(key, *new); }
            Some(Change::Deleted(_)) => { told.remove(&key); }
            None => {}
        };
        let store = listed(&[]);
        let (mut version, mut is_watching) = (0, true);
        for operation in operations.into_iter().chain([Operation::Relist]) {
            version += 1;
            match operation {
                Operation::Put(name, value) => {
                    let key = key(&name.to_string());
                    server.insert(key.clone(), (version, value));
                    if is_watching {
                        tell(key.clone(), store.applied(key, version, value));
                    }
                }
                Operation::Delete(name) => {
                    let key = key(&name.to_string());
                    if server.remove(&key).is_some() && is_watching {
                        tell(key.clone(), store.deleted(&key, version));
                    }
                }
                Operation::Break => is_watching = false,
                Operation::Relist => {
                    is_watching = true;
                    store.begin_list(&Scope::Cluster);
                    for (key, (version, value)) in &server {
                        tell(key.clone(), store.listed(key.clone(), *version, value));
                    }
                    for (key, change) in store.end_list(&Scope::Cluster) {
                        tell(key, Some(change));
                    }
                }
            }
        }
        let mut stored = BTreeMap::new();
        store.for_each(|key, value| { stored.insert(key.clone(), *value); });
        let expected: BTreeMap<_, _> = server.into_iter().map(|(key, (_, value))| (key, value)).collect();
        prop_assert_eq!(&stored, &expected);
        prop_assert_eq!(&told, &expected);
    }
}
