//! What decisions depend on beside the review: the policy, and whose updates are not checked.

use std::sync::Arc;

use webservice_api::admission::Request;
use webservice_api::rules::Policy;
use webservice_ops::latest::Latest;

use crate::refusal::Refusal;

/// The terms on which one request is decided. By default there is no policy and nobody is exempt.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// The policy in force.
    pub policy: Arc<Policy>,
    /// Users whose updates are not checked where they leave alone what rules are about.
    pub exempt: Arc<[String]>,
}

impl Terms {
    /// Whether this request of `user` passes unchecked, whatever the policy says by now: a controller must be able to take its
    /// finalizer away.
    pub(crate) fn exempt(&self, user: &str, request: &Request<'_, '_>) -> bool {
        self.exempt.iter().any(|exempt| exempt == user) && request.is_beside_the_rules()
    }
}

/// The terms as they change.
#[derive(Debug, Clone)]
pub(crate) struct LatestTerms {
    pub(crate) policy: Latest<Policy>,
    pub(crate) exempt: Arc<[String]>,
}

impl Default for LatestTerms {
    fn default() -> Self {
        Self { policy: Latest::fixed(Policy::default()), exempt: Arc::default() }
    }
}

impl LatestTerms {
    /// The terms now. Without the policy that was asked for nothing is decided.
    pub(crate) fn now(&self) -> Result<Terms, Refusal> {
        let policy = self.policy.get().ok_or(Refusal::NoPolicy)?;
        Ok(Terms { policy, exempt: Arc::clone(&self.exempt) })
    }
}

/// [`Policy::parse`] for a file that is read again and again.
pub(crate) fn parse_policy(yaml: &[u8]) -> Result<Policy, String> {
    Policy::parse(yaml).map_err(|error| error.to_string())
}
