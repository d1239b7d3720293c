//! The control groups of one cluster. Everything that runs on a node is in them, whoever started it, so that they are
//! also how it is ended: the kernel kills the members of a group and nobody else.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::super::state::StateDir;

const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// One group of the same name in every hierarchy: the kubelet's root.
pub(super) struct Cgroup {
    name: String,
    /// Mount points of cgroup v1 controllers. None on a machine with cgroup v2 only.
    v1: Vec<PathBuf>,
    /// Mount point of cgroup v2, with or without controllers.
    v2: PathBuf,
}

impl Cgroup {
    /// The groups of a cluster, which need not exist. None on a machine where they cannot.
    pub(super) fn find(state: &StateDir) -> Result<Option<Self>> {
        let path = "/proc/self/mountinfo";
        let mounts = fs::read_to_string(path).with_context(|| format!("failed to read {path}"))?;
        let v2 = mount_points(&mounts, "cgroup2").into_iter().next();
        Ok(v2.map(|v2| Self { name: name(state), v1: mount_points(&mounts, "cgroup"), v2 }))
    }

    /// The groups of a cluster, which need not exist.
    pub(super) fn of(state: &StateDir) -> Result<Self> {
        Self::find(state)?.context(
            "failed to find cgroup v2: mount it, with or without controllers, such as at /sys/fs/cgroup/unified",
        )
    }

    /// The path inside each hierarchy.
    pub(super) fn root(&self) -> String {
        format!("/{}", self.name)
    }

    /// Whether controllers are those of cgroup v1.
    pub(super) fn is_v1(&self) -> bool {
        !self.v1.is_empty()
    }

    /// The directory of the group for the node's own processes. In cgroup v2 only leaves may have members.
    pub(super) fn processes(&self) -> PathBuf {
        self.v2.join(&self.name).join("node")
    }

    /// Makes the groups, with every controller the machine has.
    pub(super) fn create(&self) -> Result<()> {
        for directory in self.directories() {
            fs::create_dir_all(&directory)
                .with_context(|| format!("failed to create {}", directory.display()))?;
        }
        enable_controllers(&self.v2);
        enable_controllers(&self.v2.join(&self.name));
        let processes = self.processes();
        fs::create_dir_all(&processes)
            .with_context(|| format!("failed to create {}", processes.display()))?;
        ensure!(self.kill_switch().exists(), "failed to find cgroup.kill: Linux 5.14 or newer is needed");
        Ok(())
    }

    /// Kills every member and removes the groups. Blocks. Nothing there is no error.
    pub(super) fn destroy(&self, deadline: Duration) -> Result<()> {
        let deadline = Instant::now() + deadline;
        if self.kill_switch().exists() {
            self.kill(deadline)
                .with_context(|| format!("failed to kill the processes of {}", self.root()))?;
        }
        self.directories().iter().try_for_each(|directory| remove(directory, deadline))
    }

    /// Members of groups below are killed too, and cannot fork their way out.
    fn kill(&self, deadline: Instant) -> Result<()> {
        fs::write(self.kill_switch(), "1")?;
        let events = self.v2.join(&self.name).join("cgroup.events");
        while is_populated(&fs::read_to_string(&events)?) {
            ensure!(Instant::now() < deadline, "some of them do not end");
            sleep(RETRY_INTERVAL);
        }
        Ok(())
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.v1.iter().chain([&self.v2]).map(|hierarchy| hierarchy.join(&self.name)).collect()
    }

    fn kill_switch(&self) -> PathBuf {
        self.v2.join(&self.name).join("cgroup.kill")
    }
}

/// Clusters of one name may exist in several state directories; their groups must differ.
fn name(state: &StateDir) -> String {
    let hash = Sha256::digest(state.path().as_os_str().as_encoded_bytes());
    format!("webservice-{}-{:02x}{:02x}{:02x}", state.name(), hash[0], hash[1], hash[2])
}

/// Where hierarchies of this type are mounted that Kubernetes would look at, in the format of proc(5).
fn mount_points(mountinfo: &str, file_system: &str) -> Vec<PathBuf> {
    let mount_point = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        let found = source.split(' ').next() == Some(file_system);
        found.then(|| mount.split(' ').nth(4).map(PathBuf::from)).flatten()
    };
    mountinfo.lines().filter_map(mount_point).filter(|path| path.starts_with("/sys/fs/cgroup")).collect()
}

/// Reads `cgroup.events`, see
/// <https://docs.kernel.org/admin-guide/cgroup-v2.html#core-interface-files>.
fn is_populated(events: &str) -> bool {
    events.lines().any(|line| line == "populated 1")
}

/// Lets the groups below have what this one has. One that cannot be shared is no failure: the kubelet says which it
/// needs.
fn enable_controllers(group: &Path) {
    let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_whitespace() {
        _ = fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// Removes a group and those below it. The kernel needs a moment to let go of members that have ended.
fn remove(group: &Path, deadline: Instant) -> Result<()> {
    let Ok(entries) = fs::read_dir(group) else { return Ok(()) };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        remove(&entry.path(), deadline)?;
    }
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                sleep(RETRY_INTERVAL);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("failed to remove {}", group.display()));
            }
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_by_the_type_of_their_file_system() {
        let mountinfo = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
40 31 0:38 / /run/monitor/cgroup rw,relatime - cgroup2 cgroup2 rw
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        assert_eq!(mount_points(mountinfo, "cgroup"), [Path::new("/sys/fs/cgroup/memory")]);
        assert_eq!(mount_points(mountinfo, "cgroup2"), [Path::new("/sys/fs/cgroup/unified")]);
    }

    #[test]
    fn a_group_is_populated_until_the_kernel_says_otherwise() {
        assert!(is_populated("populated 1\nfrozen 0\n"));
        assert!(!is_populated("populated 0\nfrozen 1\n"));
    }

    #[test]
    fn a_group_is_removed_with_all_below_it_and_once_more_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let group = directory.path().join("webservice-dev");
        fs::create_dir_all(group.join("kubepods/besteffort")).unwrap();
        for _ in 0..2 {
            remove(&group, Instant::now()).unwrap();
            assert!(!group.exists());
        }
    }
}
