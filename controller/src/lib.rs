//! The controller of the WebService operator.
//!
//! A pass over a WebService has four beats, each a module: [`observe`], [`decide`], [`act`], [`report`]; [`reconcile`] drives
//! them. The [`engine`] below knows keys, not kinds; [`run`] puts the two together. The kubectl plugin uses the same beats
//! on caches that it fills by hand.

pub mod act;
pub mod certificates;
pub mod check_webhook;
pub mod client;
pub mod config;
pub mod debug;
pub mod decide;
pub mod dependencies;
pub mod engine;
pub mod events;
pub mod failure;
pub mod health;
pub mod heard;
pub mod leadership;
pub mod metrics;
pub mod observe;
mod parts;
mod ports;
pub mod program;
pub mod reconcile;
pub mod records;
pub mod registered;
pub mod registration;
pub mod release;
pub mod report;
pub mod run;
#[cfg(test)]
mod scene;
pub mod scrape;
pub mod sinks;
pub mod sizes;
pub mod tenure;
pub mod traced;
pub mod uninstall;
pub mod vitals;
pub mod writes;
