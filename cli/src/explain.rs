//! `explain`: why a WebService is not Ready, in sentences, and what to do next.

mod advice;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use webservice_api::conditions::{READY, Reason, find};
use webservice_controller::decide::{Action, Decision, decide};
use webservice_controller::observe::{Caches, Observation};
use webservice_controller::records::WebServiceRecord;

use crate::args::OneArgs;
use crate::error::Error;
use crate::output::{Answer, Verdict, text};
use crate::reader::Reader;

pub(crate) async fn run(args: &OneArgs) -> Result<Answer, Error> {
    let reader = Reader::connect(&args.connection).await?;
    let (caches, seen) = reader.look_at(&args.name).await?;
    Ok(answer(&Case::new(&seen, &caches)))
}

/// All that an explanation rests on.
struct Case<'s> {
    seen: &'s Observation,
    decision: Decision,
    /// Those that hold it up, as they are themselves; none where there is no such WebService.
    unready: Vec<(&'s str, Option<Arc<WebServiceRecord>>)>,
    /// Whether the status speaks of the spec as it is.
    is_reported: bool,
    /// Whether the status says Ready, rightly.
    is_ready: bool,
}

impl<'s> Case<'s> {
    fn new(seen: &'s Observation, caches: &Caches) -> Self {
        let owner = &*seen.owner.value;
        let decision = decide(seen);
        let is_reported = owner.status.observed_generation == Some(owner.generation);
        let is_ready =
            owner.is_ready() && is_reported && !owner.is_deleting && decision.action == Action::Noop;
        let found = |name| (name, caches.webservices.get(&seen.key.sibling(name)).map(|found| found.value));
        let unready = owner.dependencies().map(found);
        let unready =
            unready.filter(|(_, found)| !found.as_ref().is_some_and(|found| found.is_ready())).collect();
        Self { seen, decision, unready, is_reported, is_ready }
    }

    fn owner(&self) -> &'s WebServiceRecord {
        &self.seen.owner.value
    }

    /// What the status says, without what it said before a controller came.
    fn reported(&self) -> impl Iterator<Item = &Condition> {
        let conditions = &self.owner().status.conditions;
        conditions.iter().filter(|condition| condition.reason != Reason::Pending.as_str())
    }

    fn headline(&self) -> String {
        let state = match self.owner() {
            owner if owner.is_deleting => "is being deleted".to_owned(),
            _ if self.is_ready => "is Ready".to_owned(),
            owner if owner.is_ready() => "says Ready, but that is out of date".to_owned(),
            _ => match self.reported().next() {
                Some(condition) => format!("is not Ready: {}", condition.reason),
                None => "is not Ready: no controller has looked at it".to_owned(),
            },
        };
        format!("WebService {} {state}.", self.seen.key)
    }

    fn why(&self) -> Vec<String> {
        let mut why = self.status_sentences();
        why.extend(self.decision_sentence());
        why.extend(self.unready.iter().map(|(name, found)| self.dependency_sentence(name, found.as_deref())));
        if self.owner().is_deleting && !self.owner().finalizers.is_empty() {
            why.push(format!("These finalizers hold it: {}.", self.owner().finalizers.join(", ")));
        }
        why
    }

    fn status_sentences(&self) -> Vec<String> {
        let WebServiceRecord { status, generation, .. } = self.owner();
        let mut sentences = Vec::new();
        if let Some(observed) = status.observed_generation.filter(|observed| observed != generation) {
            sentences.push(format!(
                "The status speaks of generation {observed}; the spec is at generation {generation}."
            ));
        }
        let mut told = Vec::new();
        for condition in self.reported() {
            // Conditions beside Ready mostly repeat what Ready says.
            if !told.contains(&(&condition.reason, &condition.message)) {
                told.push((&condition.reason, &condition.message));
                sentences
                    .push(closed(&format!("The status says {}: {}", condition.reason, condition.message)));
            }
        }
        sentences
    }

    /// What a pass would do now, where the status does not say so already.
    fn decision_sentence(&self) -> Option<String> {
        let Decision { action, target, reason, .. } = &self.decision;
        if !action.rests() {
            let verb = if *action == Action::Cleanup { "delete" } else { action.as_str() };
            return Some(closed(&format!("A pass would now {verb} {target}: {reason}")));
        }
        let told = find(&self.owner().status.conditions, READY).is_some_and(|ready| ready.message == *reason);
        (!told).then(|| closed(&format!("Seen from here: {reason}")))
    }

    fn dependency_sentence(&self, name: &str, found: Option<&WebServiceRecord>) -> String {
        let Some(found) = found else {
            return format!("There is no WebService {name} in namespace {}.", self.seen.key.namespace());
        };
        match find(&found.status.conditions, READY) {
            Some(ready) => closed(&format!("{name} is not Ready: {}: {}", ready.reason, ready.message)),
            None => format!("{name} is not Ready: no controller has looked at it."),
        }
    }
}

/// With a full stop, unless it has one.
fn closed(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

fn answer(case: &Case<'_>) -> Answer {
    let (headline, why, next) = (case.headline(), case.why(), case.next());
    let mut lines = vec![headline.clone()];
    for (title, points) in
        [("Why", &why), ("Next", &next)].into_iter().filter(|(_, points)| !points.is_empty())
    {
        lines.extend([String::new(), format!("{title}:")]);
        lines.extend(points.iter().map(|point| format!("  - {point}")));
    }
    let json = json!({
        "namespace": case.seen.key.namespace(),
        "name": case.seen.key.name(),
        "ready": case.is_ready,
        "headline": headline,
        "why": why,
        "next": next,
    });
    Answer { text: text(lines), json, faults: Vec::new(), verdict: Verdict::Converged }
}

#[cfg(test)]
mod tests;
