//! How the shipped operator behaves on a real API server: one file per behaviour, one binary for all of them, so that
//! linking is paid once.

mod lab;
mod writes;
