//! Which Kubernetes a cluster runs: the newest, or an older one that is tested beside it.

use std::env;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

use super::go::Module;

/// A version of Kubernetes that is built here, from a Go module of its own in `tests/cluster/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    name: &'static str,
    module: &'static str,
    /// Switches on what the tests use and newer versions have switched on.
    api_server: &'static [&'static str],
}

impl Kubernetes {
    /// Names the version for all clusters of a process and its children, where nobody asks for another.
    pub const VARIABLE: &str = "WEBSERVICE_KUBERNETES";
    /// The newest that is built here.
    pub const NEWEST: Self = Self { name: "newest", module: "kubernetes", api_server: &[] };
    const V1_34: Self = Self {
        name: "1.34",
        module: "kubernetes-1.34",
        api_server: &[
            "--feature-gates=MutatingAdmissionPolicy=true",
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        ],
    };
    const ALL: [Self; 2] = [Self::NEWEST, Self::V1_34];

    /// What [`Self::VARIABLE`] names, or the newest.
    pub fn chosen() -> Result<Self> {
        let name = env::var(Self::VARIABLE).unwrap_or_default();
        if name.is_empty() {
            return Ok(Self::NEWEST);
        }
        name.parse().with_context(|| format!("failed to read {}", Self::VARIABLE))
    }

    /// Its Go module in `tests/cluster/`.
    #[must_use]
    pub fn module(self) -> &'static str {
        self.module
    }

    /// Flags that its API server needs.
    pub(super) fn api_server(self) -> impl Iterator<Item = String> {
        self.api_server.iter().map(ToString::to_string)
    }

    /// The exact version, such as `v1.37.2`. It stands in one place: the module's go.mod.
    pub fn version(self) -> Result<String> {
        let module = Module::open(self.module)?;
        let version = module.requires("k8s.io/kubernetes");
        Ok(version
            .with_context(|| format!("{}/go.mod does not require k8s.io/kubernetes", self.module))?
            .into())
    }
}

impl FromStr for Kubernetes {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|version| version.name == name);
        found.with_context(|| {
            let names = Self::ALL.map(|version| version.name).join(" or ");
            format!("Kubernetes {name:?} is not built here: use {names}")
        })
    }
}

impl fmt::Display for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_found_by_its_name_and_pinned_by_its_module() {
        for kubernetes in Kubernetes::ALL {
            assert_eq!(kubernetes.to_string().parse::<Kubernetes>().unwrap(), kubernetes);
            let version = kubernetes.version().unwrap();
            let is_named_so = version.starts_with(&format!("v{}.", kubernetes.name));
            assert!(is_named_so || kubernetes == Kubernetes::NEWEST, "{version}");
        }
    }

    #[test]
    fn another_version_is_refused_with_those_that_there_are() {
        let error = "1.20".parse::<Kubernetes>().unwrap_err().to_string();
        assert_eq!(error, "Kubernetes \"1.20\" is not built here: use newest or 1.34");
    }
}
