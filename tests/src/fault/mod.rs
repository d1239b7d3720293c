//! A network that fails on purpose: a proxy between one controller and the API server.
//!
//! Requests pass it unchanged, watches as streams, until a test injects a [`Fault`] [`On`] some of them. What came by is
//! kept in order, with its time. The API server still sees the caller's own account, so its audit log counts what really
//! arrived.
//!
//! To find a process at the very moment of a request, hold that request up and wait for the hit:
//!
//! ```no_run
//! # async fn test(proxy: webservice_tests::fault::FaultProxy, controller: webservice_tests::bed::Controller) {
//! use webservice_tests::fault::{Fault, On};
//!
//! let held = proxy.inject(Fault::hang_after_commit(), On::verb("create").resource("configmaps").skip(2).times(1));
//! held.await_hits(1).await;
//! controller.process().kill().await;
//! # }
//! ```

mod kinds;
mod request;
mod rules;
mod serve;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use self::kinds::{Answer, End, Fault};
pub use self::request::ApiRequest;
use self::rules::Rules;
pub use self::rules::{Injection, On, Seen};
use self::serve::Upstream;
use crate::bench::client::Target;
use crate::cluster::Cluster;

/// A running proxy. It listens on loopback without TLS, and ends with the value and all its connections.
pub struct FaultProxy {
    address: SocketAddr,
    rules: Arc<Rules>,
    serving: JoinHandle<()>,
}

impl FaultProxy {
    /// A proxy before the API server of `cluster`.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let server = cluster.server_address();
        let target = Target::new(server.parse()?, cluster.authority()?.certificate())?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let rules = Arc::new(Rules::default());
        let upstream = Upstream::new(target, server.to_owned(), Arc::clone(&rules));
        let serving = tokio::spawn(serve::accept(listener, Arc::new(upstream)));
        Ok(Self { address, rules, serving })
    }

    /// Where clients reach the API server through it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on the requests that `on` describes meet `fault`. Of several faults the first that was injected counts.
    #[must_use]
    pub fn inject(&self, fault: Fault, on: On) -> Injection {
        self.rules.inject(fault, on)
    }

    /// All requests that came by, in the order in which they came.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.rules.seen()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
