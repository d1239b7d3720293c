//! The shipped webhook, started whole on free ports of the loopback, with real TLS and a real client. One file per
//! behaviour.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod support;

mod certificate;
mod clients;
mod corpus;
mod deadline;
mod hostile;
mod hostile_wire;
mod limits;
mod policy;
mod process;
mod readiness;
mod reviews;
mod shutdown;
