//! A namespace with both halves of the operator in it.

use std::ops::Deref;

use super::audit::Mark;
use super::controller::Controller;
use super::namespace::TestNamespace;
use super::webhook::Webhook;

/// A namespace that a webhook and a controller serve. The processes go before the namespace does.
pub struct OperatedNamespace {
    /// The controller.
    pub controller: Controller,
    /// The webhook.
    pub webhook: Webhook,
    namespace: TestNamespace,
}

impl OperatedNamespace {
    /// Starts both in `namespace`.
    pub async fn start(namespace: TestNamespace) -> Self {
        let webhook = namespace.start_webhook().await;
        let controller = namespace.start_controller().await;
        Self { controller, webhook, namespace }
    }

    /// Puts another controller in the place of the one that was there.
    pub async fn restart_controller(&mut self) {
        self.controller.process().stop().await;
        self.controller = self.namespace.start_controller().await;
    }

    /// What the controller has written since then, when all that it had to do is done.
    pub async fn writes_since(&self, mark: &Mark) -> Vec<String> {
        self.namespace.writes_since(mark, &self.controller).await
    }
}

impl Deref for OperatedNamespace {
    type Target = TestNamespace;

    fn deref(&self) -> &TestNamespace {
        &self.namespace
    }
}
