//! The driver: one pass over one WebService, in four beats.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use webservice_api::conditions::Reason;

use crate::act::{Acted, act, guard};
use crate::decide::{Action, Decision, decide};
use crate::engine::{Attempt, ObjectKey, Outcome, OwnWrites, Reconciler};
use crate::events::Events;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::observe::{Caches, Observation, observe};
use crate::report::{failing_status, report, status};
use crate::traced;
use crate::writes::Writes;

/// More decisions than any pass needs: delete, see it gone, create anew, rest. Beyond it something undoes what is done.
const MOST_DECISIONS: usize = 6;
/// How often a pass looks again after conflicts with what the cache shows already. Beyond it the back-off keeps them from being
/// a loop.
const MOST_LOOKS: usize = 3;

/// What passes need.
pub struct Context {
    /// What is read.
    pub caches: Caches,
    /// What is written.
    pub writes: Arc<Writes>,
    /// Who is told of transitions.
    pub events: Box<dyn Events>,
    /// Holds a pass back until the caches show what the last one wrote.
    pub own_writes: Arc<OwnWrites<ObjectKey>>,
    /// Where decisions are counted.
    pub metrics: Arc<Metrics>,
}

/// How the decisions of a pass ended.
pub enum Ended {
    /// With a decision that rests.
    AtRest(Observation, Decision),
    /// The WebService is released.
    Released,
    /// With a request that failed.
    Failed(Observation, Failure),
}

impl Reconciler for Context {
    type Key = ObjectKey;
    type Error = Failure;

    async fn reconcile(&self, key: &ObjectKey, attempt: &Attempt) -> Result<Outcome, Failure> {
        for _ in 0..MOST_LOOKS {
            if let Some(longest) = self.own_writes.unsettled(key) {
                return Ok(Outcome::AwaitCache(longest));
            }
            match self.look_and_act(key, attempt).await {
                // Somebody was faster, which is no failure: once the cache shows what they did, there is something else to decide.
                Err(Failure::Conflict) => {}
                // Deletions of these objects follow, each with an event of its own.
                Err(Failure::NamespaceTerminating | Failure::NotFound) => return Ok(Outcome::Done),
                other => return other,
            }
        }
        self.own_writes.unsettled(key).map(Outcome::AwaitCache).ok_or(Failure::Conflict)
    }
}

impl Context {
    async fn look_and_act(&self, key: &ObjectKey, attempt: &Attempt) -> Result<Outcome, Failure> {
        let Some(seen) = observe(&self.caches, &self.writes, key).await? else {
            self.own_writes.forget(key);
            return Ok(Outcome::Done);
        };
        let told = |seen: &Observation, decision: &Decision| {
            self.metrics.decided(seen, decision);
            traced::decided(decision);
        };
        let ended = pursue(&self.writes, seen, told).await;
        conclude(&self.writes, &*self.events, ended, attempt).await
    }
}

/// Decides and acts until a decision rests. The same decision twice in a row means that somebody undoes it. `told` hears every decision before it is carried out.
pub async fn pursue(
    writes: &Writes,
    mut seen: Observation,
    mut told: impl FnMut(&Observation, &Decision),
) -> Ended {
    let mut last = None;
    for _ in 0..MOST_DECISIONS {
        let decision = decide(&seen);
        told(&seen, &decision);
        let Decision { action, target, reason, .. } = &decision;
        if last.as_ref() == Some(&decision) {
            let failure = Failure::Undone { target: target.clone(), reason: reason.clone() };
            return Ended::Failed(seen, failure);
        }
        match act(writes, &seen, &decision).await {
            Ok(Acted::Rested) => return Ended::AtRest(seen, decision),
            Ok(acted) => {
                tracing::info!(key = %seen.key, "{} {target}: {reason}", action.as_str());
                match acted {
                    Acted::Changed(now) => seen = now,
                    _ => return Ended::Released,
                }
            }
            Err(failure) => return Ended::Failed(seen, failure),
        }
        last = Some(decision);
    }
    let target = seen.key.to_string();
    Ended::Failed(seen, Failure::Undone { target, reason: "no decision lasts".into() })
}

/// Reports how a pass ended, and says when the next one is due.
pub async fn conclude(
    writes: &Writes,
    events: &dyn Events,
    ended: Ended,
    attempt: &Attempt,
) -> Result<Outcome, Failure> {
    match ended {
        Ended::Released => Ok(Outcome::Done),
        Ended::AtRest(seen, decision) => {
            let guarded = guard(writes, &seen).await;
            let seen = guarded.as_ref().ok().and_then(Clone::clone).unwrap_or(seen);
            report(writes, events, &seen, status(&seen, &decision)).await?;
            guarded?;
            Ok(match decision.action {
                Action::Requeue { after } | Action::Refuse { after: Some(after) } => {
                    Outcome::RequeueAfter(after)
                }
                _ => Outcome::Done,
            })
        }
        Ended::Failed(seen, failure) => {
            // What passes with the next attempt is not worth a write, to a server that fails.
            let is_first = attempt.failures == 0 && failure.word() == Some(Reason::ApiError);
            if let Some(status) = failing_status(&seen, &failure, failing_for(attempt)).filter(|_| !is_first)
            {
                // The first failure is the one to tell; that the status could not be written either follows from it mostly.
                let _ = report(writes, events, &seen, status).await;
            }
            Err(failure)
        }
    }
}

fn failing_for(attempt: &Attempt) -> Duration {
    attempt.failing_since.map_or(Duration::ZERO, |since| Instant::now().duration_since(since))
}
