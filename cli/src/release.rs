//! `release`: lets WebServices go whose finalizer nobody will remove.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::{Value, json};
use webservice_api::constants::FINALIZER;
use webservice_controller::engine::{Cached, ObjectKey};
use webservice_controller::failure::Failure;
use webservice_controller::records::WebServiceRecord;

use crate::args::{ReleaseArgs, Selection};
use crate::error::Error;
use crate::leader;
use crate::output::{Answer, Verdict, concluded, table};
use crate::reader::Reader;

pub(crate) async fn run(args: &ReleaseArgs) -> Result<Answer, Error> {
    let reader = Reader::connect(&args.connection).await?;
    let held = held(&reader, &args.selection).await?;
    confirm(args, held.len())?;
    let is_any_live = held.iter().any(|(_, seen)| !seen.is_deleting);
    let leader =
        if is_any_live { leader::find(&reader, args.operator_namespace.as_deref()).await? } else { None };
    let mut outcomes = Vec::with_capacity(held.len());
    for (key, seen) in &held {
        let outcome = match &leader {
            Some(holder) if !seen.is_deleting => Outcome::Refused { holder: holder.clone() },
            _ => reader
                .writes
                .remove_finalizer(key, seen)
                .await
                .map_or_else(Outcome::Failed, |()| Outcome::Released),
        };
        let is_answered = !matches!(outcome, Outcome::Failed(Failure::Unavailable { .. }));
        outcomes.push((key.clone(), outcome));
        if !is_answered {
            break;
        }
    }
    Ok(answer(&outcomes, held.len(), &args.selection))
}

type Held = (ObjectKey, Cached<WebServiceRecord>);

/// The WebServices that were asked for and have our finalizer.
async fn held(reader: &Reader, selection: &Selection) -> Result<Vec<Held>, Error> {
    let store = reader.webservices(&selection.scope(&reader.namespace)).await?;
    if let Some(name) = &selection.name {
        let key = reader.key(name);
        let seen = store.get(&key).ok_or_else(|| Error::NotFound { key: key.clone() })?;
        return Ok(seen.has_finalizer(FINALIZER).then_some((key, seen)).into_iter().collect());
    }
    let mut keys = Vec::new();
    store.for_each(|key, seen| keys.extend(seen.has_finalizer(FINALIZER).then(|| key.clone())));
    keys.sort_unstable();
    Ok(keys.into_iter().filter_map(|key| store.get(&key).map(|seen| (key, seen))).collect())
}

/// Many are released only by somebody who says so.
fn confirm(args: &ReleaseArgs, count: usize) -> Result<(), Error> {
    if args.selection.name.is_some() || args.yes || count == 0 {
        return Ok(());
    }
    let unconfirmed = Error::Unconfirmed { count };
    if !io::stdin().is_terminal() {
        return Err(unconfirmed);
    }
    // A question that cannot be shown is answered with no.
    let _ = write!(io::stderr(), "Release {count} WebServices, without their cleanup? [y/N] ");
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let is_yes = read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes");
    is_yes.then_some(()).ok_or(unconfirmed)
}

/// What became of one WebService.
#[derive(Debug)]
enum Outcome {
    Released,
    /// It lives, and somebody leads who would put the finalizer back.
    Refused {
        holder: String,
    },
    Failed(Failure),
}

impl Outcome {
    fn action(&self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Refused { .. } => "refused",
            Self::Failed(_) => "failed",
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Released => format!("Finalizer {FINALIZER} is removed"),
            Self::Refused { holder } => {
                format!(
                    "It is not being deleted, and controller {holder} leads: it would put the finalizer back"
                )
            }
            Self::Failed(failure @ Failure::Undone { .. }) => {
                format!("{failure}; delete the webhook's registration first")
            }
            Self::Failed(failure) => failure.to_string(),
        }
    }

    fn verdict(&self) -> Verdict {
        match self {
            Self::Released => Verdict::Converged,
            Self::Refused { .. } => Verdict::NotConverged,
            Self::Failed(_) => Verdict::Failed,
        }
    }
}

fn answer(outcomes: &[(ObjectKey, Outcome)], all: usize, selection: &Selection) -> Answer {
    let rows: Vec<_> = outcomes
        .iter()
        .map(|(key, outcome)| [selection.shown(key), outcome.action().to_owned(), outcome.reason()])
        .collect();
    let count = |action: &str| outcomes.iter().filter(|(_, outcome)| outcome.action() == action).count();
    let [released, refused, failed] = ["released", "refused", "failed"].map(count);
    let items: Vec<Value> = outcomes
        .iter()
        .map(|(key, outcome)| {
            json!({
                "namespace": key.namespace(), "name": key.name(), "action": outcome.action(), "reason": outcome.reason(),
            })
        })
        .collect();
    let left = all.saturating_sub(outcomes.len());
    let unseen =
        (left > 0).then(|| format!("stopped before {left} more: the API server gives no usable answer"));
    let summary = if all == 0 {
        format!("Nothing to release: no finalizer {FINALIZER} was found.")
    } else {
        format!("{released} released, {refused} refused, {failed} failed")
    };
    Answer {
        text: concluded(table(["NAME", "ACTION", "REASON"], &rows), summary),
        json: json!({"items": items, "summary": {"released": released, "refused": refused, "failed": failed}}),
        faults: unseen.into_iter().collect(),
        verdict: outcomes.iter().map(|(_, outcome)| outcome.verdict()).max().unwrap_or(Verdict::Converged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Selection = Selection { name: None, all: true, all_namespaces: false };

    fn outcomes() -> [(ObjectKey, Outcome); 3] {
        let refused = Outcome::Refused { holder: "pod-1".to_owned() };
        let undone =
            Failure::Undone { target: "webservice/search".to_owned(), reason: "it is back".to_owned() };
        [("checkout", Outcome::Released), ("orders", refused), ("search", Outcome::Failed(undone))]
            .map(|(name, outcome)| (ObjectKey::new("shop", name), outcome))
    }

    #[test]
    fn each_webservice_has_its_line_and_the_worst_decides() {
        let answer = answer(&outcomes(), 3, &ALL);
        insta::assert_snapshot!(answer.text, @r"
        NAME       ACTION     REASON
        checkout   released   Finalizer webservice.labhub.io/cleanup is removed
        orders     refused    It is not being deleted, and controller pod-1 leads: it would put the finalizer back
        search     failed     somebody undoes what is written to webservice/search: it is back; delete the webhook's registration first

        1 released, 1 refused, 1 failed
        ");
        assert_eq!(answer.verdict, Verdict::Failed);
        assert_eq!(answer.json["summary"], json!({"released": 1, "refused": 1, "failed": 1}));
    }

    #[test]
    fn a_refusal_is_no_failure_and_no_success() {
        assert_eq!(answer(&outcomes()[..2], 2, &ALL).verdict, Verdict::NotConverged);
        assert_eq!(answer(&outcomes()[..1], 1, &ALL).verdict, Verdict::Converged);
    }

    #[test]
    fn where_nothing_is_held_nothing_is_done() {
        let answer = answer(&[], 0, &ALL);
        assert_eq!(answer.text, "Nothing to release: no finalizer webservice.labhub.io/cleanup was found.\n");
        assert_eq!(answer.verdict, Verdict::Converged);
    }

    #[test]
    fn those_that_were_not_reached_are_counted() {
        assert_eq!(answer(&outcomes()[..1], 3, &ALL).faults.len(), 1);
    }
}
