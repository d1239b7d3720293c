//! Letting WebServices go: without our finalizer they are deleted at once, and the garbage collector deletes their children.

use futures::{StreamExt, stream};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use webservice_api::constants::FINALIZER;

use crate::engine::{ObjectKey, Scope};
use crate::failure::Failure;
use crate::records::RawWebService;
use crate::writes::{Writes, cached, call};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Requests at a time.
const CONCURRENCY: usize = 16;

/// What one look at all WebServices came to.
#[derive(Debug, Default)]
pub struct Round {
    /// How many lost our finalizer.
    pub released: usize,
    /// How many still have it.
    pub left: usize,
    /// Why one of them has.
    pub failure: Option<Failure>,
}

/// Removes our finalizer from every WebService of `scopes` that has it. Only a round in which nothing was to be released shows that
/// none has come back.
pub async fn round(client: &Client, scopes: &[Scope]) -> Result<Round, Failure> {
    let mut round = Round::default();
    for scope in scopes {
        let api: Api<RawWebService> = match scope {
            Scope::Cluster => Api::all(client.clone()),
            Scope::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = match call("list webservices", api.list(&params)).await {
                // Without the resource there is nothing that could hang.
                Err(Failure::NotFound | Failure::NotServed { .. }) => break,
                answer => answer?,
            };
            release(client, page.items, &mut round).await;
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
    }
    Ok(round)
}

async fn release(client: &Client, webservices: Vec<RawWebService>, round: &mut Round) {
    let writes = Writes::new(client.clone(), None);
    let is_held = |webservice: &RawWebService| webservice.finalizers().iter().any(|held| held == FINALIZER);
    let releases = stream::iter(webservices.into_iter().filter(is_held)).map(async |webservice| {
        let key = ObjectKey::of(&webservice);
        writes.remove_finalizer(&key, &cached(webservice)?).await
    });
    let mut releases = std::pin::pin!(releases.buffer_unordered(CONCURRENCY));
    while let Some(answer) = releases.next().await {
        match answer {
            Ok(()) => round.released += 1,
            Err(failure) => {
                round.left += 1;
                round.failure = Some(failure);
            }
        }
    }
}
