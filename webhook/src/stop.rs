//! A stop that loses no request.
//!
//! Whoever sends reviews learns with a delay that this process is leaving, and keeps its connections even then. So the
//! order matters: first nobody new is sent here while everything is served as before; then each connection is closed
//! after its next answer, or when it has not been used for a moment (closing an idle one at once could cross with a
//! request); then nobody is let in any more, and whoever is inside is served.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What requests that came in last have until they are dropped. An answer takes less than a millisecond.
const LAST_CALL: Duration = Duration::from_secs(1);

/// The steps of a stop, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    /// Not ready any more; everything else as before.
    pub(crate) stopping: CancellationToken,
    /// Connections are closed when it hurts nobody; new ones are still taken.
    pub(crate) draining: CancellationToken,
    /// No connection is taken any more.
    pub(crate) refusing: CancellationToken,
    /// What is left is dropped.
    pub(crate) closing: CancellationToken,
}

impl Stop {
    /// Goes through the steps. `connections` are those that carry reviews; when the last one is gone, the stop is over.
    pub(crate) async fn gracefully(&self, connections: &TaskTracker, lame_duck: Duration, grace: Duration) {
        tracing::info!(?lame_duck, ?grace, "shutting down: not ready any more, still serving");
        self.stopping.cancel();
        tokio::time::sleep(lame_duck).await;

        tracing::info!(connections = connections.len(), "draining");
        self.draining.cancel();
        connections.close();
        let _ = tokio::time::timeout(grace, connections.wait()).await;

        // Somebody may have come in since the last one left.
        self.refusing.cancel();
        if tokio::time::timeout(LAST_CALL, connections.wait()).await.is_err() {
            tracing::warn!(connections = connections.len(), "dropping connections that are still open");
        }
        self.closing.cancel();
    }
}
