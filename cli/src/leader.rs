//! Whether a controller leads: a look at its Lease, and another, until it is certain.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use tokio::time::{Instant, sleep, timeout};
use webservice_controller::failure::Failure;
use webservice_controller::leadership::LEASE;
use webservice_controller::tenure::{Tenure, Verdict};

use crate::error::Error;
use crate::reader::Reader;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// What an answer may take.
const ANSWER: Duration = Duration::from_secs(15);
/// The longest that it is watched: a Lease may ask for any duration.
const PATIENCE: Duration = Duration::from_mins(1);

/// The holder of a Lease that is renewed, in `namespace` or in any. A holder that may be dead is watched for as long as it may be silent,
/// 15 s by default.
pub(crate) async fn find(reader: &Reader, namespace: Option<&str>) -> Result<Option<String>, Error> {
    let client = reader.client();
    let api: Api<Lease> = namespace
        .map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace));
    let ours = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let started = Instant::now();
    let mut seen: BTreeMap<String, Tenure> = BTreeMap::new();
    loop {
        let what = "list leases";
        let Ok(answer) = timeout(ANSWER, api.list(&ours)).await else {
            let message = format!("no answer within {} s", ANSWER.as_secs());
            return Err(Failure::Unavailable { what, message }.into());
        };
        let leases = answer.map_err(|error| Failure::from_kube(what, &error))?;
        let mut doubtful = None;
        for lease in &leases.items {
            let namespace = lease.metadata.namespace.clone().unwrap_or_default();
            match seen.entry(namespace).or_default().saw(Some(lease), started.elapsed()) {
                Verdict::Free => {}
                Verdict::Led(holder) => return Ok(Some(holder)),
                Verdict::Unclear { holder, .. } => doubtful = Some(holder),
            }
        }
        match doubtful {
            None => return Ok(None),
            // Better to refuse than to fight with somebody.
            Some(holder) if started.elapsed() > PATIENCE => return Ok(Some(holder)),
            Some(holder) => say_once(seen.len(), &holder, started),
        }
        sleep(PAUSE).await;
    }
}

/// Says on a terminal what is waited for, at the first look.
fn say_once(leases: usize, holder: &str, started: Instant) {
    if started.elapsed() < PAUSE && io::stderr().is_terminal() {
        // What cannot be shown is not missed.
        let _ = writeln!(io::stderr(), "watching {leases} Lease(s): is {holder} alive?");
    }
}
