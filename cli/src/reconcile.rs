//! `reconcile`: all four beats, once.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};

use serde_json::{Value, json};
use webservice_controller::decide::Decision;
use webservice_controller::engine::ObjectKey;
use webservice_controller::failure::Failure;
use webservice_controller::observe::Caches;

use crate::args::{Selection, SomeArgs};
use crate::error::Error;
use crate::order::dependencies_first;
use crate::output::{Answer, Verdict, concluded, table, text};
use crate::pass::{End, Pass, pass};
use crate::plan::{sentence, summary};
use crate::reader::Reader;

pub(crate) async fn run(args: &SomeArgs) -> Result<Answer, Error> {
    let reader = Reader::connect(&args.connection).await?;
    let caches = reader.caches(&args.selection.scope(&reader.namespace)).await?;
    if let Some(name) = &args.selection.name {
        return Ok(for_one(&pass(&reader, &caches, &reader.key(name)).await));
    }
    let all = caches.webservices.len();
    let passes = pass_over_all(&reader, &caches).await;
    Ok(for_all(&passes, all, &args.selection))
}

/// One after another, so that who waits for another finds it Ready in the same run. Ends early where the API server gives
/// no usable answer: each of the others would wait for one, too.
async fn pass_over_all(reader: &Reader, caches: &Caches) -> Vec<Pass> {
    let keys = dependencies_first(&caches.webservices);
    let awaited = awaited(caches);
    let progress = Progress::new(keys.len());
    let mut passes = Vec::with_capacity(keys.len());
    for (index, key) in keys.iter().enumerate() {
        progress.at(index, key);
        let mut done = pass(reader, caches, key).await;
        if awaited.contains(key)
            && let Err(failure) = reader.refresh(caches, key).await
        {
            done.end = End::Failed(failure);
        }
        let is_answered = !matches!(done.end, End::Failed(Failure::Unavailable { .. }));
        passes.push(done);
        if !is_answered {
            break;
        }
    }
    progress.done();
    passes
}

/// Those that others depend on: their new status matters to a later pass.
fn awaited(caches: &Caches) -> HashSet<ObjectKey> {
    let mut awaited = HashSet::new();
    caches
        .webservices
        .for_each(|key, record| awaited.extend(record.dependencies().map(|name| key.sibling(name))));
    awaited
}

fn for_one(pass: &Pass) -> Answer {
    let rows: Vec<_> = pass.told().iter().map(|step| cells(step).map(ToOwned::to_owned)).collect();
    let absence = (pass.end == End::Absent).then(|| format!("{}.", pass.absence()));
    Answer {
        text: text(
            table(["ACTION", "TARGET", "REASON"], &rows).into_iter().chain(absence).chain(clean_ups(pass)),
        ),
        json: pass.to_json(),
        faults: pass.fault().into_iter().collect(),
        verdict: pass.verdict(),
    }
}

fn for_all(passes: &[Pass], all: usize, selection: &Selection) -> Answer {
    let rows = passes.iter().flat_map(|pass| {
        pass.told().iter().map(|step| {
            let [action, target, reason] = cells(step);
            [&selection.shown(&pass.key), action, target, reason].map(ToOwned::to_owned)
        })
    });
    let rows: Vec<_> = rows.collect();
    let mut lines = table(["NAME", "ACTION", "TARGET", "REASON"], &rows);
    lines.extend(passes.iter().flat_map(clean_ups));
    let summary = summary(passes.iter().map(Pass::action));
    let verdict = passes.iter().map(Pass::verdict).max().unwrap_or(Verdict::Converged);
    let converged = verdict == Verdict::Converged;
    let state = if converged { "converged" } else { "not converged" };
    let items: Vec<Value> = passes.iter().map(Pass::to_json).collect();
    let left = all.saturating_sub(passes.len());
    let unseen =
        (left > 0).then(|| format!("stopped before {left} more: the API server gives no usable answer"));
    Answer {
        text: concluded(lines, format!("{}; {state}", sentence(&summary))),
        json: json!({"items": items, "summary": summary, "converged": converged}),
        faults: passes.iter().filter_map(Pass::fault).chain(unseen).collect(),
        verdict,
    }
}

fn cells(step: &Decision) -> [&str; 3] {
    [step.action.as_str(), &step.target, &step.reason]
}

fn clean_ups(pass: &Pass) -> impl Iterator<Item = String> {
    let targets = pass.cleaned_up().into_iter();
    targets.map(|target| format!("Cleaned up {target} of WebService {}.", pass.key))
}

/// One line on a terminal that says how far a long run is; nothing elsewhere.
struct Progress {
    all: usize,
    is_shown: bool,
}

impl Progress {
    /// Below this nobody waits long enough to wonder.
    const MANY: usize = 10;
    const CLEAR_LINE: &str = "\r\x1b[K";

    fn new(all: usize) -> Self {
        Self { all, is_shown: all >= Self::MANY && io::stderr().is_terminal() }
    }

    fn at(&self, done: usize, key: &ObjectKey) {
        self.write(&format!("{}{done} of {}: {key}", Self::CLEAR_LINE, self.all));
    }

    fn done(&self) {
        self.write(Self::CLEAR_LINE);
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            // Progress that cannot be shown is not missed.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use webservice_controller::decide::{Action, decide};

    use super::*;
    use crate::samples::{caches, checkout, deleted, seen, webservice, with_child};

    const ALL: Selection = Selection { name: None, all: true, all_namespaces: false };

    fn pass(name: &str, steps: Vec<Decision>, end: End) -> Pass {
        Pass { key: ObjectKey::new("shop", name), steps, end }
    }

    fn created() -> Pass {
        let matches = with_child(checkout(), json!({"image": "nginx:1.27", "replicas": "3", "tier": "dev"}));
        pass("checkout", vec![decide(&seen(checkout())), decide(&matches)], End::Rested)
    }

    fn released() -> Pass {
        let ephemeral = deleted(webservice("ephemeral", json!({"image": "a:1"})));
        let before = decide(&with_child(ephemeral.clone(), json!({})));
        pass("ephemeral", vec![before, decide(&seen(ephemeral))], End::Released)
    }

    fn waiting() -> Pass {
        let orders = webservice("orders", json!({"image": "a:1", "dependsOn": [{"name": "search"}]}));
        pass("orders", vec![decide(&seen(orders))], End::Rested)
    }

    fn failed() -> Pass {
        pass("billing", Vec::new(), End::Failed(Failure::Conflict))
    }

    #[test]
    fn a_clean_up_is_told_in_words() {
        insta::assert_snapshot!(for_one(&released()).text, @r"
        ACTION    TARGET                        REASON
        cleanup   configmap/ephemeral-desired   The WebService is being deleted, so ConfigMap ephemeral-desired goes first
        release   webservice/ephemeral          ConfigMap ephemeral-desired is gone, so nothing holds the WebService any more
        Cleaned up configmap/ephemeral-desired of WebService shop/ephemeral.
        ");
    }

    #[test]
    fn one_round_is_summed_up_by_what_was_decided_first() {
        let answer = for_all(&[created(), waiting()], 2, &ALL);
        insta::assert_snapshot!(answer.text, @r"
        NAME       ACTION    TARGET                       REASON
        checkout   create    configmap/checkout-desired   ConfigMap checkout-desired does not exist yet
        orders     requeue   configmap/orders-desired     Waiting for dependencies: search does not exist

        2 WebServices: 1 create, 0 noop, 1 requeue; not converged
        ");
        assert_eq!(answer.json["summary"], json!({"create": 1, "noop": 0, "requeue": 1}));
        assert_eq!(answer.verdict, Verdict::NotConverged);
    }

    #[test]
    fn a_round_in_which_nothing_waits_has_converged() {
        let answer = for_all(&[created()], 1, &ALL);
        assert_eq!((&answer.json["converged"], answer.verdict), (&json!(true), Verdict::Converged));
    }

    #[test]
    fn a_failure_counts_more_than_something_that_waits_and_the_others_are_still_told() {
        let answer = for_all(&[failed(), waiting(), created()], 3, &ALL);
        assert_eq!(answer.verdict, Verdict::Failed);
        assert_eq!(
            answer.faults,
            ["failed to reconcile WebService shop/billing: the object has changed meanwhile"]
        );
        assert_eq!(answer.json["items"].as_array().map(Vec::len), Some(3));
        assert_eq!(answer.json["summary"]["failed"], 1);
    }

    #[test]
    fn those_that_were_not_looked_at_are_counted() {
        let answer = for_all(&[failed()], 5, &ALL);
        assert_eq!(answer.faults[1], "stopped before 4 more: the API server gives no usable answer");
    }

    #[test]
    fn a_webservice_that_is_gone_is_said_to_be() {
        let answer = for_one(&pass("ephemeral", Vec::new(), End::Absent));
        assert_eq!(answer.text, "WebService shop/ephemeral does not exist, so there is nothing to do.\n");
        assert_eq!(answer.json["action"], Action::Noop.as_str());
    }

    #[test]
    fn those_that_others_wait_for_are_read_again_after_their_pass() {
        let orders = webservice("orders", json!({"image": "a:1", "dependsOn": [{"name": "search"}]}));
        let awaited = awaited(&caches([orders, checkout()]));
        assert_eq!(awaited, HashSet::from([ObjectKey::new("shop", "search")]));
    }
}
