//! A candidate for the controllers' Lease that is no controller of ours, but one on client-go.

use serde_json::Value;
use webservice_api::constants::FIELD_MANAGER;

use super::must::Must;
use super::namespace::TestNamespace;
use super::process::Process;
use crate::cluster::assets::{self, LEASE_CANDIDATE};
use crate::cluster::progress::Silent;

/// A running candidate.
pub struct LeaseCandidate(Process);

impl LeaseCandidate {
    /// Starts one that competes for the Lease of this namespace's controllers.
    pub async fn start(namespace: &TestNamespace) -> Self {
        let program = assets::program(&LEASE_CANDIDATE, &Silent).await.must("build a candidate on client-go");
        let name = format!("candidate-{}", namespace.next());
        let arguments = [
            format!("--kubeconfig={}", namespace.kubeconfig().display()),
            format!("--namespace={}", namespace.name()),
            format!("--name={FIELD_MANAGER}"),
            format!("--identity={name}"),
        ];
        Self(Process::run(&name, &program, arguments, namespace.directory()))
    }

    /// The process: to stop it, with a release of the Lease, or to kill it.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.0
    }

    /// Waits until it leads.
    pub async fn await_leading(&self) {
        self.0.await_line("leads", |line| line["message"] == "leading").await;
    }

    /// Waits until it knows that somebody else leads.
    pub async fn await_following(&self) {
        let follows = |line: &Value| line["message"] == "leader" && line["holder"] != "";
        self.0.await_line("follows", follows).await;
    }

    /// Whether it has ever led.
    #[must_use]
    pub fn has_led(&self) -> bool {
        self.0.log().iter().any(|line| line["message"] == "leading")
    }
}
