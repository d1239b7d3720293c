//! Measuring the shipped programs beside others that do less or the same: `cargo xtask bench`.
//!
//! Absolute times on shared machines move by a third between runs, so what counts is the ratio between two programs that
//! take turns within seconds ([`rounds`]), CPU time first. What must hold is in [`thresholds`], and [`table`] says
//! whether it does. What is measured is in [`webhook`] and [`controller`]; everything else are their instruments.

pub mod client;
pub mod controller;
pub mod cores;
pub mod echo;
pub mod hostile;
pub mod load;
pub mod machine;
pub mod reviews;
pub mod rounds;
pub mod samples;
pub mod server;
pub mod table;
pub mod thresholds;
pub mod webhook;
