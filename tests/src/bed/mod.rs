//! The vocabulary of the tests that run the shipped binaries on a real API server.
//!
//! A test has a [`TestNamespace`] of its own, in which a real webhook and a real controller serve nobody else, so that all
//! tests run side by side on one cluster. It creates what [`webservice`] and others build, says what must come true by
//! `await_…`, and counts requests in the API server's audit log. Nothing sleeps; everything that waits has a deadline
//! and says what it last saw. A test that fails prints the objects, events and logs of its namespace.
//!
//! ```no_run
//! use webservice_tests::bed::{TestNamespace, webservice};
//!
//! # async fn test() {
//! let ns = TestNamespace::with_operator().await;
//! ns.webservices().create(webservice("checkout").replicas(3)).await;
//! ns.await_ready("checkout").await;
//! assert_eq!(ns.config_maps().get("checkout-desired").await["data"]["replicas"], "3");
//! # }
//! ```
//!
//! The cluster is the running one that `WEBSERVICE_TEST_CLUSTER` names, `test` by default. `KEEP=1` keeps the namespaces
//! and logs for a look at them.

#![expect(
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test bed fails as tests do, by a panic that says what was expected"
)]

mod account;
mod audit;
mod builders;
mod command;
mod controller;
pub mod crds;
mod dump;
mod eventually;
pub mod fleet;
mod http;
mod installation;
mod lease;
mod lease_candidate;
mod metrics;
mod must;
mod namespace;
mod objects;
mod operator;
mod partition;
mod pauses;
mod policy;
mod process;
mod proxied;
mod recorded;
mod right_holder;
mod rights;
mod site;
mod test_cluster;
mod webhook;

pub use self::account::Account;
pub use self::audit::{Call, Calls, Mark, Tail};
pub use self::builders::{WebServiceBuilder, config_map, webservice};
pub use self::command::{Output, Tool, binary};
pub use self::controller::{CONCURRENCY, Controller, ControllerSetup, PAGE};
pub use self::eventually::{DEADLINE, eventually, within};
pub(crate) use self::http::get;
pub use self::installation::Installation;
pub use self::lease::LEASE_DURATION;
pub use self::lease_candidate::LeaseCandidate;
pub use self::metrics::Metrics;
pub use self::namespace::TestNamespace;
pub use self::objects::{Answer, Objects, condition, is_ready, name, uid, version};
pub use self::operator::OperatedNamespace;
pub use self::partition::Partition;
pub use self::pauses::{SHORTEST_BACK_OFF, assert_ever_longer};
pub use self::policy::Policy;
pub use self::process::Process;
pub(crate) use self::process::address;
pub use self::proxied::ProxiedNamespace;
pub use self::recorded::AUDIT_LOGS;
pub use self::right_holder::{Rights, kubeconfig_with};
pub use self::rights::Differences;
pub use self::site::{OPERATOR, RELEASE, SHOP, Site, refused};
pub use self::test_cluster::TestCluster;
pub use self::webhook::{Webhook, WebhookSetup};
