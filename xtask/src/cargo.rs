//! Cargo, called from a program that cargo runs.

pub(crate) use webservice_tests::cargo::cargo;
