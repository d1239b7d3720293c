//! The Helm chart, as Helm renders it: what it makes, what it refuses, and what stricter readers than Kubernetes say of it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod helm;
mod live;
mod monitoring;
mod names;
mod pods;
mod promtool;
mod refusals;
mod rendering;
mod rights;
mod schemas;
mod tls;
mod tools;
mod webhook;
