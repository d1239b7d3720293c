//! What is known about the clusters on this machine, by name: `${XDG_STATE_HOME}/webservice-operator/clusters/NAME/`.
//!
//! The directory is the whole truth. Any command can find a cluster there, also one that was started by a command that
//! died half-way.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::{read_json, write_json};
use super::lock::Lock;
use super::process::ProcessId;

const APPLICATION: &str = "webservice-operator";
/// Names of network interfaces and cgroups are derived from it, so it is shorter than a DNS label may be.
const MAX_NAME: usize = 20;

/// The name of a cluster: a DNS label of at most 20 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_label = !name.is_empty()
            && name.len() <= MAX_NAME
            && name.chars().all(allowed)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !is_label {
            bail!(
                "{name:?} is no cluster name: use 1 to {MAX_NAME} characters of a-z, 0-9 and '-', \
                 not beginning or ending with '-'"
            );
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for ClusterName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> Self {
        name.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How much of Kubernetes a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// etcd, API server and controller manager on 127.0.0.1. Needs no privileges.
    ControlPlane,
    /// The same with a node that runs pods, in a network namespace of its own. Needs root.
    Node,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlPlane => "control-plane",
            Self::Node => "node",
        })
    }
}

/// Where a cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is being started, or its start failed or was cut short.
    Starting,
    /// It was ready once. Its processes may have died since.
    Running,
    /// It is being taken down, or that was cut short.
    Stopping,
}

/// What `cluster.json` holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// How much of Kubernetes it has.
    pub tier: Tier,
    /// Of Kubernetes, such as `v1.37.2`.
    pub version: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// When it was asked for.
    pub created: Timestamp,
    /// The kubectl that fits.
    pub kubectl: PathBuf,
    /// The API server's URL, once its address is chosen.
    pub server: Option<String>,
    /// The process that a temporary cluster belongs to: when it is gone, the cluster is abandoned.
    pub owner: Option<ProcessId>,
}

/// The directory of one cluster, which need not exist.
#[derive(Clone, Debug)]
pub struct StateDir {
    name: ClusterName,
    path: PathBuf,
}

impl StateDir {
    /// The directory of the cluster with this name.
    pub fn of(name: &ClusterName) -> Result<Self> {
        Ok(Self::below(&state_home()?, name))
    }

    /// The directories of all clusters of this user, sorted by name.
    pub fn all() -> Result<Vec<Self>> {
        Self::all_below(&state_home()?)
    }

    fn below(home: &Path, name: &ClusterName) -> Self {
        Self { name: name.clone(), path: home.join("clusters").join(name.as_str()) }
    }

    fn all_below(home: &Path) -> Result<Vec<Self>> {
        let clusters = home.join("clusters");
        let entries = match fs::read_dir(&clusters) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("failed to list {}", clusters.display()));
            }
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Some(name), true) = (name, entry.path().is_dir()) {
                found.push(Self::below(home, &name));
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// Where the cluster keeps everything that is its own.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is anything of this cluster, complete or not.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Makes the directory, for its owner only: it holds the keys of an administrator.
    pub fn create(&self) -> Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .with_context(|| format!("failed to create {}", self.path.display()))
    }

    /// Removes the directory and all in it. Nothing there is no error.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("failed to remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Reads the metadata; none when the cluster was never begun.
    pub fn load(&self) -> Result<Option<Metadata>> {
        read_json(&self.metadata_path())
    }

    /// Writes the metadata.
    pub fn save(&self, metadata: &Metadata) -> Result<()> {
        write_json(&self.metadata_path(), metadata)
    }

    /// Takes the right to start or stop this cluster, without blocking other tasks.
    pub(super) async fn lock(&self, deadline: Duration) -> Result<Lock> {
        Lock::wait(&self.lock_path(), deadline).await
    }

    /// Takes the right to start or stop this cluster. Blocks.
    pub(super) fn lock_blocking(&self, deadline: Duration) -> Result<Lock> {
        Lock::acquire(&self.lock_path(), deadline)
    }

    fn metadata_path(&self) -> PathBuf {
        self.path.join("cluster.json")
    }

    /// Beside the directory, because the lock is held while the directory is made and removed.
    fn lock_path(&self) -> PathBuf {
        self.path.with_added_extension("lock")
    }
}

/// Where binaries are kept that take minutes to build: `${XDG_CACHE_HOME}/webservice-operator`.
pub(super) fn cache_home() -> Result<PathBuf> {
    home("XDG_CACHE_HOME", ".cache", |name| env::var_os(name))
}

fn state_home() -> Result<PathBuf> {
    home("XDG_STATE_HOME", ".local/state", |name| env::var_os(name))
}

/// The XDG base directory specification: an unset, empty or relative variable counts as unset.
/// <https://specifications.freedesktop.org/basedir-spec/latest/>
fn home(variable: &str, fallback: &str, environment: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(fallback)))
        .map(|base| base.join(APPLICATION))
        .with_context(|| format!("neither {variable} nor HOME is set: set one to an absolute path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    fn metadata() -> Metadata {
        Metadata {
            tier: Tier::ControlPlane,
            version: "v1.37.2".into(),
            phase: Phase::Starting,
            created: Timestamp::UNIX_EPOCH,
            kubectl: "/cache/kubectl".into(),
            server: None,
            owner: None,
        }
    }

    #[test]
    fn a_cluster_name_is_a_short_dns_label() {
        for good in ["dev", "a", "0", "tmp-12345-1", "abcdefghijklmnopqrst"] {
            assert!(good.parse::<ClusterName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "Dev", "a.b", "a/b", "..", "abcdefghijklmnopqrstu", "ä"] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn metadata_is_read_back_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::below(home.path(), &name("dev"));
        assert_eq!(state.load().unwrap(), None);
        state.create().unwrap();
        state.save(&metadata()).unwrap();
        assert_eq!(state.load().unwrap(), Some(metadata()));
    }

    #[test]
    fn clusters_are_listed_by_name_and_locks_are_no_clusters() {
        let home = tempfile::tempdir().unwrap();
        assert!(StateDir::all_below(home.path()).unwrap().is_empty());
        for cluster in ["web", "dev"] {
            StateDir::below(home.path(), &name(cluster)).create().unwrap();
        }
        let _lock = StateDir::below(home.path(), &name("dev")).lock_blocking(Duration::ZERO).unwrap();
        let found = StateDir::all_below(home.path()).unwrap();
        assert_eq!(found.iter().map(|state| state.name().as_str()).collect::<Vec<_>>(), ["dev", "web"]);
    }

    #[test]
    fn removing_a_cluster_leaves_nothing_and_may_be_repeated() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::below(home.path(), &name("dev"));
        state.create().unwrap();
        state.save(&metadata()).unwrap();
        state.remove().unwrap();
        assert!(!state.exists());
        state.remove().unwrap();
    }

    #[test]
    fn the_base_directory_follows_the_xdg_specification() {
        let with = |pairs: &'static [(&str, &str)]| {
            home("XDG_STATE_HOME", ".local/state", move |wanted| {
                pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
            })
        };
        let expect = |path: &str| PathBuf::from(path);
        assert_eq!(with(&[("XDG_STATE_HOME", "/s")]).unwrap(), expect("/s/webservice-operator"));
        assert_eq!(with(&[("HOME", "/h")]).unwrap(), expect("/h/.local/state/webservice-operator"));
        assert_eq!(
            with(&[("XDG_STATE_HOME", "s"), ("HOME", "/h")]).unwrap(),
            expect("/h/.local/state/webservice-operator")
        );
        assert!(with(&[]).is_err());
    }
}
