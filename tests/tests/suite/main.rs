//! How the shipped operator behaves on a real API server: one file per behaviour, one binary for all of them, so that
//! linking is paid once.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod admission;
mod agreement;
mod availability;
mod bad_input;
mod certificates;
mod chains;
mod clients;
mod contested;
mod deletion;
mod dependencies;
mod engine;
mod exposition;
mod faults;
mod faults_mixed;
mod faults_watches;
mod interop;
mod lab;
mod outages;
mod overload;
mod ownership;
mod poisoned;
mod policy;
mod races;
mod release;
mod restart;
mod rights;
mod scope;
mod scrape;
mod sharing;
mod soak;
mod standby;
mod steady;
mod suspend;
mod telling;
mod tutorial;
mod undecodable;
mod uninstall;
mod writes;
