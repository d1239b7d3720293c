//! A namespace whose controller has a bad network.

use std::ops::Deref;
use std::time::Duration;

use tokio::time::Instant;

use super::controller::Controller;
use super::must::Must;
use super::namespace::TestNamespace;
use crate::fault::{ApiRequest, FaultProxy};

/// A namespace with a controller that reaches the API server by way of a proxy, and no webhook. The controller goes before
/// the proxy does, and the proxy before the namespace.
pub struct ProxiedNamespace {
    /// The controller.
    pub controller: Controller,
    /// What stands between it and the API server.
    pub proxy: FaultProxy,
    namespace: TestNamespace,
}

impl ProxiedNamespace {
    /// Starts both, and waits until the controller is ready.
    pub async fn start() -> Self {
        let (namespace, proxy) = Self::prepare().await;
        let controller = namespace.controller().through(&proxy).await.start().await;
        Self { controller, proxy, namespace }
    }

    /// The same, where faults are in force from the first request on; they may keep the controller from being ready.
    pub async fn start_under<T>(inject: impl FnOnce(&FaultProxy) -> T) -> (Self, T) {
        let (namespace, proxy) = Self::prepare().await;
        let injected = inject(&proxy);
        let controller = namespace.controller().through(&proxy).await.launch().await;
        (Self { controller, proxy, namespace }, injected)
    }

    async fn prepare() -> (TestNamespace, FaultProxy) {
        let namespace = TestNamespace::new().await;
        let proxy = FaultProxy::start(namespace.cluster()).await.must("start a proxy");
        (namespace, proxy)
    }

    /// The requests so far that were `VERB RESOURCE`, sent on or not.
    #[must_use]
    pub fn asked(&self, verb: &str, resource: &str) -> usize {
        self.seen(|request| (request.verb, &*request.resource) == (verb, resource)).len()
    }

    /// When the requests so far arrived that are meant, sent on or not.
    #[must_use]
    pub fn seen(&self, is_meant: impl Fn(&ApiRequest) -> bool) -> Vec<Instant> {
        self.proxy.seen().iter().filter(|seen| is_meant(&seen.request)).map(|seen| seen.at).collect()
    }

    /// The times between one and the next of them.
    #[must_use]
    pub fn pauses(&self, is_meant: impl Fn(&ApiRequest) -> bool) -> Vec<Duration> {
        self.seen(is_meant).windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

impl Deref for ProxiedNamespace {
    type Target = TestNamespace;

    fn deref(&self) -> &TestNamespace {
        &self.namespace
    }
}
