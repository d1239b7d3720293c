//! What private clusters leave behind: their audit logs, for whoever looks at the calls of a whole suite.

use std::ops::Deref;
use std::path::Path;
use std::{env, fs};

use crate::cluster::TemporaryCluster;

/// Names the directory for the logs; where it is not set, nothing is left behind.
pub const AUDIT_LOGS: &str = "WEBSERVICE_TEST_AUDIT_LOGS";

/// A cluster whose audit log is kept when it goes.
pub(super) struct Recorded(pub(super) TemporaryCluster);

impl Deref for Recorded {
    type Target = TemporaryCluster;

    fn deref(&self) -> &TemporaryCluster {
        &self.0
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let Some(directory) = env::var_os(AUDIT_LOGS) else { return };
        let copy = Path::new(&directory).join(format!("{}.log", self.name()));
        if let Err(error) = fs::copy(self.audit_log_path(), copy) {
            eprintln!("failed to keep the audit log of cluster {}: {error}", self.name());
        }
    }
}
