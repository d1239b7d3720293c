//! `observe`: the first beat. What is asked for beside what there is, as far as a decision rests on it.

use serde_json::Value;
use webservice_api::child::DATA_KEYS;
use webservice_controller::observe::Observation;
use webservice_controller::records::{ChildRecord, Controller};

use crate::args::OneArgs;
use crate::error::Error;
use crate::output::{Answer, Verdict, table, text};
use crate::reader::Reader;

pub(crate) async fn run(args: &OneArgs) -> Result<Answer, Error> {
    let reader = Reader::connect(&args.connection).await?;
    let (_, seen) = reader.look_at(&args.name).await?;
    Ok(answer(&seen))
}

fn answer(seen: &Observation) -> Answer {
    let json = seen.to_json();
    Answer { text: text(lines(seen, &json)), json, faults: Vec::new(), verdict: Verdict::Converged }
}

fn lines(seen: &Observation, json: &Value) -> Vec<String> {
    if let Err(fault) = &seen.owner.spec {
        return vec![format!("WebService {} asks for something impossible: {fault}", seen.key)];
    }
    let mut rows = data_rows(json);
    let Some(child) = seen.child.seen() else {
        let absence = format!("ConfigMap {} does not exist.", seen.child_name());
        return [table(HEADER, &rows), vec![String::new(), absence]].concat();
    };
    rows.push(row("labels", "ours", if child.has_our_labels { "ours" } else { "not ours" }));
    rows.push(owner_row(seen, child));
    table(HEADER, &rows)
}

const HEADER: [&str; 4] = ["FIELD", "DESIRED", "ACTUAL", "EQUAL"];

fn data_rows(json: &Value) -> Vec<[String; 4]> {
    let cell = |side: &str, field: &str| match &json[side][field] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    DATA_KEYS.iter().map(|field| row(field, &cell("desired", field), &cell("actual", field))).collect()
}

fn owner_row(seen: &Observation, child: &ChildRecord) -> [String; 4] {
    let name = format!("WebService/{}", seen.key.name());
    let owner = match &child.controller {
        Controller::Nobody => "nobody".to_owned(),
        Controller::WebService { uid, .. } if *uid == seen.owner.uid => name.clone(),
        Controller::WebService { name, uid } => format!("WebService/{name} (uid {uid})"),
        Controller::Other(other) => other.to_string(),
    };
    row("owner", &name, &owner)
}

fn row(field: &str, desired: &str, actual: &str) -> [String; 4] {
    let equal = if desired == actual { "yes" } else { "no" };
    [field, desired, actual, equal].map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{checkout, seen, webservice, with_child};

    #[test]
    fn every_field_of_the_child_stands_beside_the_one_asked_for() {
        let drifted = json!({"image": "nginx:1.26", "replicas": "3"});
        insta::assert_snapshot!(answer(&with_child(checkout(), drifted)).text, @r"
        FIELD      DESIRED               ACTUAL                EQUAL
        image      nginx:1.27            nginx:1.26            no
        replicas   3                     3                     yes
        tier       dev                   -                     no
        labels     ours                  ours                  yes
        owner      WebService/checkout   WebService/checkout   yes
        ");
    }

    #[test]
    fn a_child_that_is_missing_is_said_to_be() {
        let answer = answer(&seen(checkout()));
        assert!(answer.text.ends_with("ConfigMap checkout-desired does not exist.\n"), "{}", answer.text);
        assert_eq!(answer.json["actual"], Value::Null);
        assert_eq!(answer.json["desired"]["image"], "nginx:1.27");
    }

    #[test]
    fn a_spec_that_cannot_be_reconciled_is_told_with_its_fault() {
        let answer = answer(&seen(webservice("checkout", json!({"image": "nginx:1.27", "replicas": -1}))));
        assert!(answer.text.contains("spec.replicas"), "{}", answer.text);
    }
}
