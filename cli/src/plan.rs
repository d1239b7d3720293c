//! `plan`: the first two beats. What the controller would do next, and why.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use webservice_controller::decide::{Action, Decision, decide};
use webservice_controller::engine::ObjectKey;

use crate::args::{Selection, SomeArgs};
use crate::error::Error;
use crate::order::dependencies_first;
use crate::output::{Answer, Verdict, concluded, table, text};
use crate::reader::Reader;

pub(crate) async fn run(args: &SomeArgs) -> Result<Answer, Error> {
    let reader = Reader::connect(&args.connection).await?;
    if let Some(name) = &args.selection.name {
        let (_, seen) = reader.look_at(name).await?;
        return Ok(for_one(&decide(&seen)));
    }
    let caches = reader.caches(&args.selection.scope(&reader.namespace)).await?;
    let mut plans = Vec::new();
    for key in dependencies_first(&caches.webservices) {
        if let Some(seen) = reader.look(&caches, &key).await? {
            plans.push((key, decide(&seen)));
        }
    }
    Ok(for_all(&plans, &args.selection))
}

fn for_one(decision: &Decision) -> Answer {
    let row = [decision.action.as_str().to_owned(), decision.target.clone(), decision.reason.clone()];
    Answer {
        text: text(table(["ACTION", "TARGET", "REASON"], &[row])),
        json: decision.to_json(),
        faults: Vec::new(),
        verdict: verdict([decision]),
    }
}

fn for_all(plans: &[(ObjectKey, Decision)], selection: &Selection) -> Answer {
    let row = |(key, decision): &(ObjectKey, Decision)| {
        [
            selection.shown(key),
            decision.action.as_str().to_owned(),
            decision.target.clone(),
            decision.reason.clone(),
        ]
    };
    let rows: Vec<_> = plans.iter().map(row).collect();
    let item = |(key, decision): &(ObjectKey, Decision)| {
        let mut item = decision.to_json();
        item["namespace"] = json!(key.namespace());
        item["name"] = json!(key.name());
        item
    };
    let items: Vec<Value> = plans.iter().map(item).collect();
    let decisions = || plans.iter().map(|(_, decision)| decision);
    let summary = summary(decisions().map(|decision| decision.action.as_str()));
    let converged = decisions().all(|decision| decision.action == Action::Noop);
    Answer {
        text: concluded(table(["NAME", "ACTION", "TARGET", "REASON"], &rows), sentence(&summary)),
        json: json!({"items": items, "summary": summary, "converged": converged}),
        faults: Vec::new(),
        verdict: verdict(decisions()),
    }
}

/// Waiting and refusing are told by the exit code; what a plan would change is no fault.
fn verdict<'d>(decisions: impl IntoIterator<Item = &'d Decision>) -> Verdict {
    let holds =
        |decision: &Decision| matches!(decision.action, Action::Requeue { .. } | Action::Refuse { .. });
    if decisions.into_iter().any(holds) { Verdict::NotConverged } else { Verdict::Converged }
}

/// How many of each action; `noop` always, since that is what one looks for.
pub(crate) fn summary<'a>(actions: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut summary = BTreeMap::from([(Action::Noop.as_str(), 0)]);
    for action in actions {
        *summary.entry(action).or_default() += 1;
    }
    summary
}

/// The summary for people.
pub(crate) fn sentence(summary: &BTreeMap<&str, usize>) -> String {
    let all: usize = summary.values().sum();
    let parts: Vec<_> = summary.iter().map(|(action, count)| format!("{count} {action}")).collect();
    format!("{all} WebService{}: {}", if all == 1 { "" } else { "s" }, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{checkout, seen, webservice, with_child};

    const ALL: Selection = Selection { name: None, all: true, all_namespaces: false };

    fn create() -> Decision {
        decide(&seen(checkout()))
    }

    fn noop() -> Decision {
        decide(&with_child(checkout(), json!({"image": "nginx:1.27", "replicas": "3", "tier": "dev"})))
    }

    fn requeue() -> Decision {
        decide(&seen(webservice("orders", json!({"image": "a:1", "dependsOn": [{"name": "search"}]}))))
    }

    fn named(name: &str, decision: Decision) -> (ObjectKey, Decision) {
        (ObjectKey::new("shop", name), decision)
    }

    #[test]
    fn the_plan_of_one_is_an_action_a_target_and_a_reason() {
        let answer = for_one(&create());
        let expected = json!({
            "action": "create",
            "reason": "ConfigMap checkout-desired does not exist yet",
            "target": "configmap/checkout-desired",
        });
        assert_eq!((answer.json, answer.verdict), (expected, Verdict::Converged));
    }

    #[test]
    fn waiting_shows_in_the_exit_code_and_is_no_error() {
        let answer = for_one(&requeue());
        assert_eq!(answer.verdict, Verdict::NotConverged);
        assert_eq!((&answer.json["after_seconds"], &answer.json["is_error"]), (&json!(300), &json!(false)));
    }

    #[test]
    fn the_plan_of_all_is_summed_up() {
        let plans = [named("checkout", noop()), named("billing", create()), named("orders", requeue())];
        let answer = for_all(&plans, &ALL);
        insta::assert_snapshot!(answer.text, @r"
        NAME       ACTION    TARGET                       REASON
        checkout   noop      configmap/checkout-desired   ConfigMap checkout-desired matches the spec
        billing    create    configmap/checkout-desired   ConfigMap checkout-desired does not exist yet
        orders     requeue   configmap/orders-desired     Waiting for dependencies: search does not exist

        3 WebServices: 1 create, 1 noop, 1 requeue
        ");
        assert_eq!(answer.json["summary"], json!({"create": 1, "noop": 1, "requeue": 1}));
        assert_eq!(
            (&answer.json["items"][1]["name"], &answer.json["converged"]),
            (&json!("billing"), &json!(false))
        );
    }

    #[test]
    fn among_all_namespaces_names_come_with_theirs() {
        let selection = Selection { all_namespaces: true, ..ALL };
        assert!(for_all(&[named("checkout", noop())], &selection).text.contains("shop/checkout   noop"));
    }

    #[test]
    fn of_nothing_the_plan_is_nothing() {
        let answer = for_all(&[], &ALL);
        assert_eq!(answer.text, "0 WebServices: 0 noop\n");
        assert_eq!((answer.json["summary"]["noop"].as_i64(), answer.verdict), (Some(0), Verdict::Converged));
    }
}
