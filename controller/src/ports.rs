//! The addresses that the process listens on, and what is served there.

use axum::Router;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webservice_ops::listen::{BindError, Listener, bind};
use webservice_ops::server::{MAX_CONNECTIONS, Server, Transport};

use crate::config::Config;

/// The bound addresses.
pub(crate) struct Ports {
    probes: Listener,
    metrics: Listener,
    debug: Option<Listener>,
}

/// What is served at each of them.
pub(crate) struct Routes {
    pub(crate) probes: Router,
    pub(crate) metrics: (Router, Transport),
    pub(crate) debug: Router,
}

impl Ports {
    pub(crate) fn bind(config: &Config) -> Result<Self, BindError> {
        Ok(Self {
            probes: bind("probes", config.probe_address)?,
            metrics: bind("metrics", config.metrics_address)?,
            debug: config.debug.debug_address.map(|address| bind("debug", address)).transpose()?,
        })
    }

    pub(crate) fn serve(
        self,
        routes: Routes,
        server: &http::Uri,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) {
        let [probes, metrics] = [&self.probes, &self.metrics].map(Listener::address);
        let debugging = self.debug.as_ref().map(|debug| tracing::field::display(debug.address()));
        tracing::info!(%probes, %metrics, debug = debugging, %server, version = env!("CARGO_PKG_VERSION"), "listening");
        let (metrics, transport) = routes.metrics;
        let serve = |listener, router, transport| {
            let server = Server { transport, ..Server::plain(listener, router, MAX_CONNECTIONS) };
            tasks.spawn(server.run_until(stop.clone()));
        };
        serve(self.probes, routes.probes, Transport::Plain);
        serve(self.metrics, metrics, transport);
        if let Some(listener) = self.debug {
            serve(listener, routes.debug, Transport::Plain);
        }
    }
}
