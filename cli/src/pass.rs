//! One pass of the controller, made here: all four beats, from lists instead of a cache that follows.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use webservice_controller::decide::{Action, Decision};
use webservice_controller::engine::{Attempt, ObjectKey};
use webservice_controller::failure::Failure;
use webservice_controller::observe::Caches;
use webservice_controller::reconcile::{Ended, conclude, pursue};

use crate::output::Verdict;
use crate::reader::Reader;

/// How long to wait before each further try, when somebody else writes at the same time.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// The longest wait that the API server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The action of a pass that failed, in output.
const FAILED: &str = "failed";

/// What became of one WebService.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) key: ObjectKey,
    /// The decisions that were carried out, in order; the last one rests, unless the WebService was released.
    pub(crate) steps: Vec<Decision>,
    pub(crate) end: End,
}

/// How a pass ended.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// With a decision that rests, and the status written where it differed.
    Rested,
    /// The finalizer has left.
    Released,
    /// There is no such WebService.
    Absent,
    /// With a request that failed.
    Failed(Failure),
}

/// Makes one pass over `key`. It begins anew, a bounded number of times, when something changed under its hands.
pub(crate) async fn pass(reader: &Reader, caches: &Caches, key: &ObjectKey) -> Pass {
    let mut steps = Vec::new();
    let mut pauses = PAUSES.into_iter();
    let end = loop {
        let failure = match attempt(reader, caches, key, &mut steps).await {
            Ok(end) => break end,
            Err(failure) => failure,
        };
        let Some(pause) = pause_after(&failure, &mut pauses) else { break End::Failed(failure) };
        sleep(pause).await;
        if let Err(failure) = reader.refresh(caches, key).await {
            break End::Failed(failure);
        }
    };
    steps.dedup();
    Pass { key: key.clone(), steps, end }
}

/// How long to wait before trying again, if that can help.
fn pause_after(failure: &Failure, pauses: &mut impl Iterator<Item = Duration>) -> Option<Duration> {
    match failure {
        Failure::Conflict | Failure::NotFound => pauses.next(),
        Failure::Throttled { after } if *after <= LONGEST_PAUSE => {
            pauses.next().map(|pause| pause.max(*after))
        }
        _ => None,
    }
}

async fn attempt(
    reader: &Reader,
    caches: &Caches,
    key: &ObjectKey,
    steps: &mut Vec<Decision>,
) -> Result<End, Failure> {
    let Some(seen) = reader.look(caches, key).await? else {
        return Ok(End::Absent);
    };
    let ended = pursue(&reader.writes, seen, |_, decision| steps.push(decision.clone())).await;
    let end = match &ended {
        Ended::AtRest(..) => End::Rested,
        Ended::Released => End::Released,
        Ended::Failed(_, failure) => {
            // It was not carried out. Nor is the status touched: what this person may not do says nothing about the controller.
            steps.pop();
            return Err(failure.clone());
        }
    };
    let first = Attempt { deadline: Instant::now(), failures: 0, failing_since: None };
    conclude(&reader.writes, &(), ended, &first).await.map(|_| end)
}

impl Pass {
    /// What the pass decided first.
    pub(crate) fn action(&self) -> &'static str {
        match (&self.end, self.steps.first()) {
            (End::Failed(_), _) => FAILED,
            (_, Some(first)) => first.action.as_str(),
            (_, None) => Action::Noop.as_str(),
        }
    }

    /// The steps worth a line: a closing noop after something was done goes without saying.
    pub(crate) fn told(&self) -> &[Decision] {
        match &*self.steps {
            [done @ .., last] if !done.is_empty() && last.action == Action::Noop => done,
            all => all,
        }
    }

    /// What was deleted, since its WebService is being deleted.
    pub(crate) fn cleaned_up(&self) -> Vec<&str> {
        let waits = self.verdict() != Verdict::Converged;
        let cleanups = self.steps.iter().filter(|step| step.action == Action::Cleanup && !waits);
        cleanups.map(|step| step.target.as_str()).collect()
    }

    /// Whether anything is left to do or failed.
    pub(crate) fn verdict(&self) -> Verdict {
        match (&self.end, self.steps.last().map(|last| &last.action)) {
            (End::Failed(_), _) => Verdict::Failed,
            (End::Rested, Some(Action::Requeue { .. } | Action::Refuse { .. })) => Verdict::NotConverged,
            _ => Verdict::Converged,
        }
    }

    /// What failed, in a sentence.
    pub(crate) fn fault(&self) -> Option<String> {
        match &self.end {
            End::Failed(failure) => Some(format!("failed to reconcile WebService {}: {failure}", self.key)),
            _ => None,
        }
    }

    /// For programs: the first decision with `namespace`, `name`, all `steps`, and what was `cleaned_up` or the `error`.
    pub(crate) fn to_json(&self) -> Value {
        let first = self.steps.first().map(Decision::to_json);
        let mut json = first.unwrap_or_else(|| json!({"target": format!("webservice/{}", self.key.name())}));
        json["action"] = json!(self.action());
        json["namespace"] = json!(self.key.namespace());
        json["name"] = json!(self.key.name());
        json["steps"] = self.steps.iter().map(Decision::to_json).collect();
        json["converged"] = json!(self.verdict() == Verdict::Converged);
        if self.end == End::Absent {
            json["reason"] = json!(self.absence());
        }
        if !self.cleaned_up().is_empty() {
            json["cleaned_up"] = json!(self.cleaned_up());
        }
        if let Some(fault) = self.fault() {
            json["error"] = json!(fault);
        }
        json
    }

    /// That there is nothing, in a sentence.
    pub(crate) fn absence(&self) -> String {
        format!("WebService {} does not exist, so there is nothing to do", self.key)
    }
}

#[cfg(test)]
mod tests {
    use webservice_api::conditions::Reason;

    use super::*;

    fn step(action: Action, target: &str) -> Decision {
        Decision { action, target: target.into(), reason: "because".into(), word: Reason::Pending }
    }

    fn pass(steps: impl Into<Vec<Decision>>, end: End) -> Pass {
        Pass { key: ObjectKey::new("shop", "checkout"), steps: steps.into(), end }
    }

    fn child(action: Action) -> Decision {
        step(action, "configmap/checkout-desired")
    }

    fn requeue() -> Decision {
        child(Action::Requeue { after: Duration::from_mins(5) })
    }

    #[test]
    fn a_pass_is_called_by_its_first_decision() {
        let json = pass([child(Action::Create), child(Action::Noop)], End::Rested).to_json();
        assert_eq!(
            (&json["action"], &json["name"], &json["converged"]),
            (&json!("create"), &json!("checkout"), &json!(true))
        );
        assert_eq!(json["steps"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_pass_that_waits_has_not_converged_and_is_no_error() {
        let pass = pass([requeue()], End::Rested);
        assert_eq!(pass.verdict(), Verdict::NotConverged);
        let json = pass.to_json();
        assert_eq!((&json["after_seconds"], &json["is_error"]), (&json!(300), &json!(false)));
    }

    #[test]
    fn a_closing_noop_goes_without_saying_but_a_lone_one_does_not() {
        assert_eq!(pass([child(Action::Create), child(Action::Noop)], End::Rested).told().len(), 1);
        assert_eq!(pass([child(Action::Noop)], End::Rested).told().len(), 1);
        assert_eq!(pass([child(Action::Create), requeue()], End::Rested).told().len(), 2);
    }

    #[test]
    fn what_was_cleaned_up_is_told_once_it_is_gone() {
        let release = step(Action::Release, "webservice/checkout");
        let done = pass([child(Action::Cleanup), release], End::Released);
        assert_eq!(done.to_json()["cleaned_up"], json!(["configmap/checkout-desired"]));
        let held = pass([child(Action::Cleanup), requeue()], End::Rested);
        assert_eq!(held.to_json()["cleaned_up"], Value::Null);
    }

    #[test]
    fn a_webservice_that_is_gone_is_nothing_to_do_and_no_error() {
        let pass = pass([], End::Absent);
        assert_eq!((pass.action(), pass.verdict()), ("noop", Verdict::Converged));
        assert_eq!(
            pass.to_json()["reason"],
            "WebService shop/checkout does not exist, so there is nothing to do"
        );
    }

    #[test]
    fn a_pass_that_failed_says_what_failed_and_for_whom() {
        let forbidden = Failure::Forbidden { what: "create configmap", message: "no".into() };
        let pass = pass([], End::Failed(forbidden));
        assert_eq!((pass.action(), pass.verdict()), ("failed", Verdict::Failed));
        let fault = "failed to reconcile WebService shop/checkout: failed to create configmap: forbidden: no";
        assert_eq!(pass.to_json()["error"], fault);
    }

    #[test]
    fn only_what_may_pass_by_itself_is_tried_again_and_not_for_ever() {
        let mut pauses = PAUSES.into_iter();
        assert_eq!(std::iter::from_fn(|| pause_after(&Failure::Conflict, &mut pauses)).count(), PAUSES.len());
        let forbidden = Failure::Forbidden { what: "", message: String::new() };
        assert_eq!(pause_after(&forbidden, &mut PAUSES.into_iter()), None);
    }

    #[test]
    fn the_wait_that_the_api_server_asks_for_is_kept_unless_it_is_too_long_for_a_person() {
        let wait = |seconds| {
            let throttled = Failure::Throttled { after: Duration::from_secs(seconds) };
            pause_after(&throttled, &mut PAUSES.into_iter())
        };
        assert_eq!(wait(2), Some(Duration::from_secs(2)));
        assert_eq!(wait(11), None);
    }
}
