//! The chart on a real node: pods from the operator's image, which the API server calls through a Service. Needs root.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod availability;
mod certificates;
mod disruptions;
mod installation;
mod load;
mod modes;
mod removal;
mod rotations;
mod upgrades;
