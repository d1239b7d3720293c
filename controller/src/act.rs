//! Third beat: carries a decision out. Every write is idempotent and carries preconditions; "already so" is success.

use webservice_api::WebServiceSpec;
use webservice_api::constants::FINALIZER;

use crate::decide::{Action, Decision};
use crate::engine::Cached;
use crate::failure::Failure;
use crate::observe::{Child, Observation};
use crate::records::ChildRecord;
use crate::writes::{Creation, Deletion, Writes};

/// What a decision led to.
#[derive(Clone, Debug)]
pub enum Acted {
    /// The world has changed; this is how it looks now. Decide again.
    Changed(Observation),
    /// There was nothing to carry out: the decision rests.
    Rested,
    /// The WebService is released: it is gone, or somebody else holds it.
    Released,
}

/// Carries `decision` out, which was made on `seen`.
pub async fn act(writes: &Writes, seen: &Observation, decision: &Decision) -> Result<Acted, Failure> {
    let child = match (&decision.action, &seen.child, &seen.owner.spec) {
        (Action::Create, _, Ok(spec)) => create(writes, seen, spec).await?,
        (Action::Update { .. }, Child::Seen(child), Ok(spec)) => {
            Child::Seen(writes.apply_child(&seen.key, &seen.owner.uid, spec, child).await?)
        }
        (Action::Adopt, Child::Seen(child), Ok(spec)) => {
            Child::Seen(writes.adopt_child(&seen.key, &seen.owner.uid, spec, child).await?)
        }
        (Action::Replace | Action::Cleanup, Child::Seen(child), _) => delete(writes, seen, child).await?,
        (Action::Cleanup, _, _) => Child::confirmed(writes.get_child(&seen.key).await?),
        (Action::Release, ..) => {
            writes.remove_finalizer(&seen.key, &seen.owner).await?;
            return Ok(Acted::Released);
        }
        _ => return Ok(Acted::Rested),
    };
    Ok(Acted::Changed(Observation { child, ..seen.clone() }))
}

async fn create(writes: &Writes, seen: &Observation, spec: &WebServiceSpec) -> Result<Child, Failure> {
    match writes.create_child(&seen.key, &seen.owner.uid, spec).await? {
        Creation::Created(child) => Ok(Child::Seen(child)),
        // Ours after an answer that was lost, or somebody's that the cache does not show: look, and decide again.
        Creation::AlreadyExists => match writes.get_child(&seen.key).await? {
            Some(child) => Ok(Child::Seen(child)),
            None => Err(Failure::Conflict),
        },
    }
}

async fn delete(writes: &Writes, seen: &Observation, child: &Cached<ChildRecord>) -> Result<Child, Failure> {
    match writes.delete_child(&seen.key, child).await? {
        Deletion::Gone => Ok(Child::Gone),
        Deletion::Terminating(child) => Ok(Child::Seen(child)),
    }
}

/// Adds the finalizer to a live WebService that came in while the webhook was away. Gives the WebService as it is then.
pub async fn guard(writes: &Writes, seen: &Observation) -> Result<Option<Observation>, Failure> {
    if seen.owner.is_deleting || seen.owner.has_finalizer(FINALIZER) {
        return Ok(None);
    }
    let owner = writes.add_finalizer(&seen.key, &seen.owner).await?;
    Ok(Some(Observation { owner, ..seen.clone() }))
}
