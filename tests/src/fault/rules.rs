//! Which requests meet which fault, and what came by.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::kinds::Fault;
use super::request::ApiRequest;
use crate::bed::eventually;

/// The requests that a fault is about.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct On {
    verbs: Vec<&'static str>,
    resources: Vec<&'static str>,
    names: Vec<String>,
    skip: usize,
    times: Option<usize>,
    chance: Option<(f64, u64)>,
}

impl On {
    /// All of one verb, such as `watch` or `create`.
    pub fn verb(verb: &'static str) -> Self {
        Self { verbs: vec![verb], ..Self::default() }
    }

    /// All that are answered at once: everything but watches.
    pub fn calls() -> Self {
        let verbs = vec!["get", "list", "create", "update", "patch", "delete"];
        Self { verbs, ..Self::default() }
    }

    /// Only on this resource, such as `webservices/status`, or on one of several.
    pub fn resource(mut self, resource: &'static str) -> Self {
        self.resources.push(resource);
        self
    }

    /// Only on the object of this name, or of one of several.
    pub fn name(mut self, name: &str) -> Self {
        self.names.push(name.to_owned());
        self
    }

    /// But for the first ones.
    pub fn skip(self, skip: usize) -> Self {
        Self { skip, ..self }
    }

    /// No more than so many.
    pub fn times(self, times: usize) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Each with this probability. The same seed makes the same choices, in the order in which the requests come.
    pub fn chance(self, probability: f64, seed: u64) -> Self {
        Self { chance: Some((probability, seed)), ..self }
    }

    fn matches(&self, request: &ApiRequest) -> bool {
        let any = |wanted: &[&str], is: &str| wanted.is_empty() || wanted.contains(&is);
        any(&self.verbs, request.verb)
            && any(&self.resources, &request.resource)
            && (self.names.is_empty() || self.names.contains(&request.name))
    }
}

/// A request that came by.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What it asked for.
    pub request: ApiRequest,
    /// When it came.
    pub at: Instant,
    /// Whether it met a fault.
    pub is_faulty: bool,
}

/// What became of a fault so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    hits: usize,
    pub(super) is_lifted: bool,
}

/// A fault in force. It stays so when the value goes.
#[derive(Clone, Debug)]
pub struct Injection(Arc<watch::Sender<Progress>>);

impl Injection {
    /// How many requests have met the fault.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.0.borrow().hits
    }

    /// Waits until so many requests have met the fault.
    pub async fn await_hits(&self, hits: usize) {
        eventually(&format!("{hits} requests meet the fault"), async || match self.hits() {
            met if met >= hits => Ok(()),
            met => Err(format!("{met} did")),
        })
        .await;
    }

    /// Ends it: no further request meets it, and what it holds back comes through.
    pub fn lift(&self) {
        self.0.send_modify(|progress| progress.is_lifted = true);
    }
}

/// A fault that a request meets.
pub(super) struct Met {
    pub(super) fault: Fault,
    /// To wait for its end.
    pub(super) progress: watch::Receiver<Progress>,
}

struct Rule {
    fault: Fault,
    on: On,
    matched: usize,
    choices: fastrand::Rng,
    progress: Arc<watch::Sender<Progress>>,
}

impl Rule {
    fn meets(&mut self, request: &ApiRequest) -> Option<Met> {
        let Progress { hits, is_lifted } = *self.progress.borrow();
        if is_lifted || self.on.times.is_some_and(|times| hits >= times) || !self.on.matches(request) {
            return None;
        }
        self.matched += 1;
        let is_chosen = self.on.chance.is_none_or(|(probability, _)| self.choices.f64() < probability);
        if self.matched <= self.on.skip || !is_chosen {
            return None;
        }
        self.progress.send_modify(|progress| progress.hits += 1);
        Some(Met { fault: self.fault.clone(), progress: self.progress.subscribe() })
    }
}

/// All rules of a proxy, and its log.
#[derive(Default)]
pub(super) struct Rules(Mutex<(Vec<Rule>, Vec<Seen>)>);

impl Rules {
    pub(super) fn inject(&self, fault: Fault, on: On) -> Injection {
        let progress = Arc::new(watch::Sender::new(Progress::default()));
        let choices = fastrand::Rng::with_seed(on.chance.map_or(0, |(_, seed)| seed));
        let injection = Injection(Arc::clone(&progress));
        self.with(|rules, _| rules.push(Rule { fault, on, matched: 0, choices, progress }));
        injection
    }

    /// Notes a request, and gives the fault that it meets.
    pub(super) fn meet(&self, request: ApiRequest) -> Option<Met> {
        self.with(|rules, seen| {
            let met = rules.iter_mut().find_map(|rule| rule.meets(&request));
            seen.push(Seen { request, at: Instant::now(), is_faulty: met.is_some() });
            met
        })
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.with(|_, seen| seen.clone())
    }

    fn with<T>(&self, use_them: impl FnOnce(&mut Vec<Rule>, &mut Vec<Seen>) -> T) -> T {
        let (rules, seen) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_them(rules, seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: &str) -> ApiRequest {
        ApiRequest { verb: "create", resource: "configmaps".into(), name: name.into() }
    }

    fn met(rules: &Rules, names: &[&str]) -> Vec<bool> {
        names.iter().map(|name| rules.meet(create(name)).is_some()).collect()
    }

    #[test]
    fn a_fault_hits_as_often_as_it_was_told_and_then_no_more() {
        let rules = Rules::default();
        let injection = rules.inject(Fault::lost_reply(), On::verb("create").name("a").skip(1).times(1));
        assert_eq!(met(&rules, &["a", "b", "a", "a"]), [false, false, true, false]);
        assert_eq!(injection.hits(), 1);
    }

    #[test]
    fn a_fault_that_is_lifted_hits_nobody() {
        let rules = Rules::default();
        rules.inject(Fault::hang(), On::calls()).lift();
        assert_eq!(met(&rules, &["a"]), [false]);
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let choices = || {
            let rules = Rules::default();
            _ = rules.inject(Fault::hang(), On::calls().chance(0.5, 7));
            met(&rules, &["a"; 64])
        };
        assert_eq!(choices(), choices());
        assert!(choices().contains(&true) && choices().contains(&false));
    }
}
