//! The programs that make up a cluster: where each comes from, and where it is once it is built.
//!
//! They are built from the Go modules in `tests/cluster/` and kept in
//! `${XDG_CACHE_HOME}/webservice-operator/bin/MODULE-FINGERPRINT/`, outside the checkout, so that a fresh clone finds
//! them again. Where `KUBEBUILDER_ASSETS` names a directory, programs found there are used instead, as envtest does.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::go::Module;
use super::lock::Lock;
use super::progress::{Progress, step};
use super::state::{Tier, cache_home};
use super::version::Kubernetes;

/// Somebody else may be building all of Kubernetes, on one core.
const LOCK_DEADLINE: Duration = Duration::from_hours(1);

/// A program and its origin.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The file name of the binary.
    pub name: &'static str,
    /// The directory of its Go module in `tests/cluster/`.
    pub module: &'static str,
    /// What `go build` is asked for.
    pub package: &'static str,
    /// The smallest tier that needs it.
    pub tier: Tier,
    /// How long the first build takes on two cores, in seconds, in the order of this table.
    pub seconds: u64,
}

impl Part {
    /// The same of another Kubernetes, where it is a part of Kubernetes.
    fn of(self, kubernetes: Kubernetes) -> Self {
        let is_versioned = self.module == Kubernetes::NEWEST.module();
        Self { module: if is_versioned { kubernetes.module() } else { self.module }, ..self }
    }
}

/// kube-apiserver first: it fills Go's build cache for the others, so the longest wait is over first.
#[rustfmt::skip]
pub const PARTS: &[Part] = &[
    Part { name: "kube-apiserver", module: "kubernetes", package: "k8s.io/kubernetes/cmd/kube-apiserver", tier: Tier::ControlPlane, seconds: 250 },
    Part { name: "kube-controller-manager", module: "kubernetes", package: "k8s.io/kubernetes/cmd/kube-controller-manager", tier: Tier::ControlPlane, seconds: 76 },
    Part { name: "kubectl", module: "kubernetes", package: "k8s.io/kubernetes/cmd/kubectl", tier: Tier::ControlPlane, seconds: 20 },
    Part { name: "etcd", module: "etcd", package: "go.etcd.io/etcd/server/v3", tier: Tier::ControlPlane, seconds: 20 },
    Part { name: "kubelet", module: "kubernetes", package: "k8s.io/kubernetes/cmd/kubelet", tier: Tier::Node, seconds: 20 },
    Part { name: "kube-scheduler", module: "kubernetes", package: "k8s.io/kubernetes/cmd/kube-scheduler", tier: Tier::Node, seconds: 9 },
    Part { name: "kube-proxy", module: "kubernetes", package: "k8s.io/kubernetes/cmd/kube-proxy", tier: Tier::Node, seconds: 9 },
    Part { name: "containerd", module: "containerd", package: "github.com/containerd/containerd/v2/cmd/containerd", tier: Tier::Node, seconds: 35 },
    Part { name: "containerd-shim-runc-v2", module: "containerd", package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", tier: Tier::Node, seconds: 8 },
    Part { name: "ctr", module: "containerd", package: "github.com/containerd/containerd/v2/cmd/ctr", tier: Tier::Node, seconds: 8 },
    Part { name: "bridge", module: "cni", package: "github.com/containernetworking/plugins/plugins/main/bridge", tier: Tier::Node, seconds: 3 },
    Part { name: "loopback", module: "cni", package: "github.com/containernetworking/plugins/plugins/main/loopback", tier: Tier::Node, seconds: 1 },
    Part { name: "host-local", module: "cni", package: "github.com/containernetworking/plugins/plugins/ipam/host-local", tier: Tier::Node, seconds: 1 },
    Part { name: "portmap", module: "cni", package: "github.com/containernetworking/plugins/plugins/meta/portmap", tier: Tier::Node, seconds: 1 },
    Part { name: "gate", module: "gate", package: ".", tier: Tier::Node, seconds: 5 },
    Part { name: "pause", module: "pause", package: ".", tier: Tier::Node, seconds: 1 },
];

/// A candidate for a Lease on client-go, which tests let compete with our own.
pub const LEASE_CANDIDATE: Part = Part {
    name: "lease-candidate",
    module: "lease-candidate",
    package: ".",
    tier: Tier::ControlPlane,
    seconds: 60,
};

/// Where each program is.
#[derive(Clone, Debug)]
pub struct Binaries(BTreeMap<&'static str, PathBuf>);

impl Binaries {
    /// The path of a program of [`PARTS`].
    pub fn path(&self, name: &str) -> Result<&Path> {
        self.0.get(name).map(PathBuf::as_path).with_context(|| format!("{name} is no part of this tier"))
    }
}

/// The version of Kubernetes that clusters run where nobody asks for another, such as `v1.37.2`.
pub fn kubernetes_version() -> Result<String> {
    Kubernetes::chosen()?.version()
}

/// Finds the programs of a tier and builds those that are missing.
pub async fn ensure(tier: Tier, kubernetes: Kubernetes, progress: &dyn Progress) -> Result<Binaries> {
    let parts: Vec<Part> =
        PARTS.iter().filter(|part| part.tier <= tier).map(|part| part.of(kubernetes)).collect();
    let parts: Vec<&Part> = parts.iter().collect();
    let given = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let cache = cache_home()?.join("bin");
    let paths = locate(&parts, given.as_deref(), &cache).await?;

    let missing: Vec<_> = parts.iter().filter(|part| !paths[part.name].exists()).collect();
    for (index, part) in missing.iter().enumerate() {
        let position = format!("{} of {}", index + 1, missing.len());
        build(part, &paths[part.name], &position, progress).await?;
    }
    Ok(Binaries(paths))
}

/// The directory with the sources of a Go module that the module in `tests/cluster/NAME` requires.
pub async fn sources(name: &str, required: &str) -> Result<PathBuf> {
    Module::open(name)?.sources(required).await
}

/// Finds one program that is no part of a cluster, and builds it if it is missing.
pub async fn program(part: &Part, progress: &dyn Progress) -> Result<PathBuf> {
    let mut paths = locate(&[part], None, &cache_home()?.join("bin")).await?;
    let path = paths.remove(part.name).with_context(|| format!("failed to place {}", part.name))?;
    if !path.exists() {
        build(part, &path, "1 of 1", progress).await?;
    }
    Ok(path)
}

/// Finds one program that is no part of a cluster, if it is built already.
pub async fn find(part: &Part) -> Option<PathBuf> {
    // Whoever has no toolchain has built nothing either.
    let mut paths = locate(&[part], None, &cache_home().ok()?.join("bin")).await.ok()?;
    paths.remove(part.name).filter(|path| path.exists())
}

/// Decides where each program is, or will be once it is built. The toolchain is asked only about modules of which
/// something is not given, so nobody needs Go who brings everything along.
async fn locate(
    parts: &[&Part],
    given: Option<&Path>,
    cache: &Path,
) -> Result<BTreeMap<&'static str, PathBuf>> {
    let mut directories = BTreeMap::new();
    let mut paths = BTreeMap::new();
    for part in parts {
        if let Some(path) = given.map(|directory| directory.join(part.name)).filter(|path| path.is_file()) {
            paths.insert(part.name, path);
            continue;
        }
        if !directories.contains_key(part.module) {
            let fingerprint = Module::open(part.module)?.fingerprint().await?;
            directories.insert(part.module, cache.join(format!("{}-{fingerprint}", part.module)));
        }
        paths.insert(part.name, directories[part.module].join(part.name));
    }
    Ok(paths)
}

/// Builds one program, unless somebody else has done so in the meantime.
async fn build(part: &Part, path: &Path, position: &str, progress: &dyn Progress) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory).with_context(|| format!("failed to create {}", directory.display()))?;
    let _lock = lock(part.module, &directory.with_added_extension("lock"), progress).await?;
    if path.exists() {
        return Ok(());
    }
    let name = format!("build {} ({position}, {})", part.name, expected(part.seconds));
    step(progress, &name, Module::open(part.module)?.build(part.package, path)).await
}

/// The right to build in a module.
async fn lock(module: &str, path: &Path, progress: &dyn Progress) -> Result<Lock> {
    if let Some(lock) = Lock::try_acquire(path)? {
        return Ok(lock);
    }
    let name = format!("wait for another command that builds {module}");
    step(progress, &name, Lock::wait(path, LOCK_DEADLINE)).await
}

/// How long the first build takes, for a person.
fn expected(seconds: u64) -> String {
    match seconds {
        0..60 => format!("about {seconds} s the first time"),
        _ => format!("about {} min the first time", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> &'static Part {
        PARTS.iter().find(|part| part.name == name).unwrap()
    }

    #[test]
    fn every_part_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(names.len(), PARTS.len());
    }

    #[test]
    fn the_api_server_is_built_first() {
        assert_eq!(PARTS[0].name, "kube-apiserver");
    }

    #[test]
    fn an_older_kubernetes_has_its_own_programs_and_shares_the_others() {
        let older = "1.34".parse().unwrap();
        assert_eq!(part("kubelet").of(older).module, "kubernetes-1.34");
        assert_eq!(part("etcd").of(older).module, "etcd");
    }

    #[test]
    fn expected_times_are_in_the_unit_a_person_would_use() {
        assert_eq!(expected(20), "about 20 s the first time");
        assert_eq!(expected(250), "about 5 min the first time");
    }

    #[tokio::test]
    async fn a_given_program_is_used_and_the_toolchain_is_not_asked() {
        let given = tempfile::tempdir().unwrap();
        let etcd = given.path().join("etcd");
        fs::write(&etcd, "").unwrap();
        let paths = locate(&[part("etcd")], Some(given.path()), Path::new("/cache")).await.unwrap();
        assert_eq!(paths["etcd"], etcd);
    }

    #[tokio::test]
    async fn a_program_that_is_not_given_lies_in_the_cache_of_its_module() {
        let given = tempfile::tempdir().unwrap();
        let paths = locate(&[part("etcd")], Some(given.path()), Path::new("/cache")).await.unwrap();
        let directory = paths["etcd"].parent().unwrap().to_str().unwrap();
        assert!(directory.starts_with("/cache/etcd-"), "{directory}");
    }

    #[tokio::test]
    async fn programs_of_one_module_lie_side_by_side() {
        let parts = [part("bridge"), part("portmap")];
        let paths = locate(&parts, None, Path::new("/cache")).await.unwrap();
        assert_eq!(paths["bridge"].parent(), paths["portmap"].parent());
    }
}
