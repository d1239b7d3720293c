//! The test bed: a real Kubernetes cluster built from Go modules, and what the suites need on top of it.
//!
//! [`cluster`] starts and stops clusters, [`image`] makes container images without a container runtime, and [`bed`] is the
//! vocabulary of the tests: a namespace of its own for each, the shipped binaries in it, and words to say what must hold.
//! [`fault`] stands between the controller and the API server where a test wants it to.

pub mod bed;
pub mod bench;
pub mod cargo;
#[cfg(test)]
mod cases;
pub mod cluster;
pub mod fault;
pub mod helm;
pub mod image;
pub mod operator_image;
pub mod prove;
