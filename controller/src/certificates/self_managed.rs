//! CA and leaf made by the leader, in two Secrets of its own namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::Instant;
use webservice_api::constants::FIELD_MANAGER;
use webservice_certs::{Bundle, Ca, Validity};

use super::metrics::{CertificateMetrics, Which};
use super::plan::{State, Step, Terms, plan};
use super::secret::{CA_KEY, Fields, new_ca, new_leaf, with};
use super::state::Found;
use super::{Problem, Rest, WebhookArgs, about, resting};
use crate::registration::Registrations;
use crate::writes::call;

/// Most steps of a pass. From nothing to rest there are five.
const MOST_STEPS: usize = 10;

/// See the [module](self).
pub(super) struct SelfManaged {
    secrets: Api<Secret>,
    ca_secret: String,
    leaf_secret: String,
    registrations: Registrations,
    terms: Terms,
    trust: Trust,
    metrics: CertificateMetrics,
}

impl SelfManaged {
    pub(super) fn new(
        args: &WebhookArgs,
        namespace: &str,
        client: &Client,
        registrations: &Registrations,
        metrics: &CertificateMetrics,
    ) -> Option<Self> {
        let WebhookArgs {
            webhook_service: Some(service), ca_secret: Some(ca), tls_secret: Some(leaf), ..
        } = args
        else {
            return None;
        };
        let terms = Terms {
            service: service.clone(),
            namespace: namespace.to_owned(),
            ca_lifetime: args.ca_lifetime,
            leaf_lifetime: args.leaf_lifetime,
            overlap: args.ca_overlap,
        };
        Some(Self {
            secrets: Api::namespaced(client.clone(), namespace),
            ca_secret: ca.clone(),
            leaf_secret: leaf.clone(),
            registrations: registrations.clone(),
            terms,
            trust: Trust::default(),
            metrics: metrics.clone(),
        })
    }

    pub(super) async fn pass(&mut self, now: Timestamp) -> Result<Rest, Problem> {
        let mut found = self.look().await?;
        for _ in 0..MOST_STEPS {
            let state = found.state(self.trust.lasts(found.trusted_ca()));
            let step = plan(&state, &self.terms, now);
            if let Step::Rest { until_due } = step {
                self.metrics.show(&state);
                return Ok(resting(until_due, &self.registrations, found.registrations.len()));
            }
            self.carry_out(step, &state, &mut found, now).await?;
        }
        Err(Problem::Restless)
    }

    async fn look(&self) -> Result<Found, Problem> {
        Ok(Found {
            ca: self.read(&self.ca_secret).await?,
            leaf: self.read(&self.leaf_secret).await?,
            registrations: super::registrations(&self.registrations).await?,
        })
    }

    async fn carry_out(
        &self,
        step: Step,
        state: &State,
        found: &mut Found,
        now: Timestamp,
    ) -> Result<(), Problem> {
        match (step, &state.ca) {
            (Step::MakeCa { because }, _) => {
                found.ca = Some(self.make_ca(found.ca.take(), &state.known, now, &because).await?);
            }
            (Step::IssueLeaf { because }, Ok(ca)) => {
                found.leaf = Some(self.issue_leaf(found.leaf.take(), ca, now, &because).await?);
            }
            (Step::Remember(trusted), _) => {
                let fields = vec![(CA_KEY, trusted.to_pem())];
                found.ca = Some(self.write(found.ca.take(), &self.ca_secret, fields).await?);
            }
            (Step::Publish { registration, bundle }, _) => {
                if let Some(seen) = found.registrations.get_mut(registration) {
                    *seen = super::publish(&self.registrations, seen, &bundle).await?;
                }
            }
            (Step::IssueLeaf { .. } | Step::Rest { .. }, _) => {}
        }
        Ok(())
    }

    async fn make_ca(
        &self,
        seen: Option<Secret>,
        known: &Bundle,
        now: Timestamp,
        because: &str,
    ) -> Result<Secret, Problem> {
        let (Validity { not_after, .. }, fields) = new_ca(&self.terms, known, now)?;
        let written = self.write(seen, &self.ca_secret, fields).await?;
        self.metrics.renewed(Which::Ca);
        tracing::info!(secret = self.ca_secret, %not_after, because, "made a CA");
        Ok(written)
    }

    async fn issue_leaf(
        &self,
        seen: Option<Secret>,
        ca: &Ca,
        now: Timestamp,
        because: &str,
    ) -> Result<Secret, Problem> {
        let (Validity { not_after, .. }, fields) = new_leaf(&self.terms, ca, now)?;
        let written = self.write(seen, &self.leaf_secret, fields).await?;
        self.metrics.renewed(Which::Leaf);
        tracing::info!(secret = self.leaf_secret, %not_after, because, "issued a certificate");
        Ok(written)
    }

    async fn read(&self, name: &str) -> Result<Option<Secret>, Problem> {
        call("get the Secret", self.secrets.get_opt(name)).await.map_err(about(self.shown(name)))
    }

    /// Writes `fields` into the Secret as it was seen, or creates it.
    async fn write(&self, seen: Option<Secret>, name: &str, fields: Fields) -> Result<Secret, Problem> {
        let exists = seen.is_some();
        let secret = with(seen, name, fields);
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let written = if exists {
            call("update the Secret", self.secrets.replace(name, &params, &secret)).await
        } else {
            call("create the Secret", self.secrets.create(&params, &secret)).await
        };
        written.map_err(about(self.shown(name)))
    }

    fn shown(&self, name: &str) -> String {
        format!("Secret {}/{name}", self.terms.namespace)
    }
}

/// Since when the present CA has been seen in every registration, by this process. Another one begins anew: it cannot know.
#[derive(Debug, Default)]
struct Trust(Option<(Bundle, Instant)>);

impl Trust {
    /// How long `trusted` has been so by now; none: it is missing somewhere.
    fn lasts(&mut self, trusted: Option<Bundle>) -> Duration {
        match (trusted, &self.0) {
            (Some(ca), Some((before, since))) if ca == *before => since.elapsed(),
            (other, _) => {
                self.0 = other.map(|ca| (ca, Instant::now()));
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::SignedDuration;

    use super::*;

    fn bundle() -> Bundle {
        let life = Validity::lasting(SignedDuration::from_hours(1), Timestamp::UNIX_EPOCH);
        Bundle::readable(Ca::create(life).unwrap().certificate_pem().as_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn trust_counts_from_when_it_was_first_seen_and_anew_after_a_gap_or_another_ca() {
        let (one, other, second) = (bundle(), bundle(), Duration::from_secs(1));
        let mut trust = Trust::default();
        for (seen, lasts) in [
            (Some(&one), Duration::ZERO),
            (Some(&one), second),
            (Some(&one), 2 * second),
            (None, Duration::ZERO),
            (Some(&one), Duration::ZERO),
            (Some(&other), Duration::ZERO),
            (Some(&other), second),
        ] {
            assert_eq!(trust.lasts(seen.cloned()), lasts);
            tokio::time::advance(second).await;
        }
    }
}
