use std::sync::Mutex;

use tokio::time::advance;

use super::*;
use crate::engine::store::{Scope, Store};

const MOMENT: Duration = Duration::from_millis(1);

/// A guard over one store, as a feeder and a worker drive it.
struct Bed {
    store: Arc<Store<&'static str>>,
    guard: OwnWrites<&'static str>,
    woken: Arc<Mutex<Vec<&'static str>>>,
}

fn child() -> ObjectKey {
    ObjectKey::new("shop", "child")
}

impl Bed {
    fn new() -> Self {
        let store = Arc::new(Store::new([Scope::Cluster]));
        let woken = Arc::new(Mutex::new(Vec::new()));
        let guard = OwnWrites::new({
            let woken = Arc::clone(&woken);
            move |key| woken.lock().unwrap().push(key)
        });
        let bed = Self { store, guard, woken };
        bed.relist(&[]);
        bed
    }

    fn wrote(&self, object: ObjectKey, written: Written) {
        self.guard.wrote(&"owner", Arc::clone(&self.store) as Arc<dyn Cache>, object, written);
    }

    fn sees(&self, object: &ObjectKey, version: u64) {
        self.store.applied(object.clone(), version, "x");
        self.guard.observed(object);
    }

    fn sees_deletion(&self, object: &ObjectKey, version: u64) {
        self.store.deleted(object, version);
        self.guard.observed(object);
    }

    fn relist(&self, objects: &[(ObjectKey, u64)]) {
        self.store.begin_list(&Scope::Cluster);
        for (object, version) in objects {
            self.store.listed(object.clone(), *version, "x");
        }
        self.store.end_list(&Scope::Cluster);
        self.guard.relisted();
    }

    fn is_settled(&self) -> bool {
        self.guard.unsettled(&"owner").is_none()
    }

    fn woken(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.woken.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_without_writes_is_settled() {
    assert!(Bed::new().is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_until_its_write_comes_back_and_is_woken() {
    let bed = Bed::new();
    bed.wrote(child(), Written::Version(5));
    assert!(!bed.is_settled());
    bed.sees(&child(), 4);
    assert!(!bed.is_settled());
    assert_eq!(bed.woken(), [""; 0]);
    bed.sees(&child(), 5);
    assert_eq!(bed.woken(), ["owner"]);
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_asked_for_is_not_woken() {
    let bed = Bed::new();
    bed.wrote(child(), Written::Version(5));
    bed.sees(&child(), 5);
    assert_eq!(bed.woken(), [""; 0]);
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_overtakes_the_answer_settles_the_write() {
    let bed = Bed::new();
    bed.sees(&child(), 5);
    bed.wrote(child(), Written::Version(5));
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_by_others_that_overtakes_the_answer_settles_the_write() {
    let bed = Bed::new();
    bed.sees(&child(), 5);
    bed.sees_deletion(&child(), 6);
    bed.wrote(child(), Written::Version(5));
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_settled_when_the_object_is_gone() {
    let bed = Bed::new();
    bed.sees(&child(), 5);
    bed.wrote(child(), Written::Gone(5));
    assert!(!bed.is_settled());
    bed.sees_deletion(&child(), 6);
    assert_eq!(bed.woken(), ["owner"]);
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_settled_by_a_successor_of_the_same_name() {
    let bed = Bed::new();
    bed.sees(&child(), 5);
    bed.wrote(child(), Written::Gone(5));
    bed.sees(&child(), 7);
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_predecessor_does_not_settle_a_creation() {
    let bed = Bed::new();
    bed.sees(&child(), 3);
    bed.wrote(child(), Written::Version(5));
    bed.sees_deletion(&child(), 4);
    assert!(!bed.is_settled());
    bed.sees(&child(), 5);
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn all_writes_must_settle() {
    let bed = Bed::new();
    let owner = ObjectKey::new("shop", "owner");
    bed.wrote(child(), Written::Version(5));
    bed.wrote(owner.clone(), Written::Version(6));
    assert!(!bed.is_settled());
    bed.sees(&child(), 5);
    assert!(!bed.is_settled());
    assert_eq!(bed.woken(), [""; 0]);
    bed.sees(&owner, 6);
    assert_eq!(bed.woken(), ["owner"]);
}

#[tokio::test(start_paused = true)]
async fn the_second_write_of_an_object_is_waited_for_after_the_first_came_back() {
    let bed = Bed::new();
    bed.wrote(child(), Written::Version(5));
    bed.wrote(child(), Written::Version(6));
    assert!(!bed.is_settled());
    bed.sees(&child(), 5);
    assert_eq!(bed.woken(), [""; 0]);
    bed.sees(&child(), 6);
    assert_eq!(bed.woken(), ["owner"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_list_that_began_after_the_write_settles_it() {
    let bed = Bed::new();
    bed.wrote(child(), Written::Version(5));
    assert!(!bed.is_settled());
    bed.relist(&[]);
    assert_eq!(bed.woken(), ["owner"]);
    assert!(bed.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_never_seen_is_given_up_and_counted() {
    let bed = Bed::new();
    bed.wrote(child(), Written::Version(5));
    assert_eq!(bed.guard.unsettled(&"owner"), Some(EXPIRY));
    advance(EXPIRY.saturating_sub(MOMENT)).await;
    assert!(!bed.is_settled());
    assert_eq!(bed.guard.expired(), 0);
    advance(MOMENT).await;
    assert!(bed.is_settled());
    assert_eq!(bed.guard.expired(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_what_is_settled_or_forgotten() {
    let bed = Bed::new();
    bed.wrote(child(), Written::Version(5));
    assert!(!bed.is_settled());
    bed.guard.forget(&"owner");
    assert!(bed.is_settled());
    bed.wrote(child(), Written::Version(5));
    assert!(!bed.is_settled());
    bed.sees(&child(), 5);
    let state = bed.guard.lock();
    assert!(state.guards.is_empty() && state.waiting.is_empty());
}
