//! Configuration of the node's parts: pure functions from what is known to what is written.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::pki::KeyPairFiles;
use super::{NODE_ADDRESS, PAUSE_IMAGE, POD_RANGE};

/// containerd, version 3 of <https://containerd.io/docs/main/man/containerd-config.toml.5/>.
///
/// Paths that are not given are below /run and /var/lib, which are the cluster's own inside a node.
pub(super) fn containerd(shim: &Path, plugins: &Path, networks: &Path) -> String {
    let (shim, plugins, networks) = (shim.display(), plugins.display(), networks.display());
    format!(
        r#"version = 3
disabled_plugins = ["io.containerd.nri.v1.nri"]

[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
pinned_images.sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
# To be spared by the kernel is a privilege, which root in a virtual machine may not have.
restrict_oom_score_adj = true
# Its profiles would be loaded into the machine's kernel and stay there.
disable_apparmor = true
cni.bin_dirs = ["{plugins}"]
cni.conf_dir = "{networks}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"
options.SystemdCgroup = false
"#
    )
}

/// The pods' network, as <https://www.cni.dev/docs/spec/> describes it.
pub(super) fn network() -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// What the kubelet is told of the machine.
pub(super) struct Kubelet<'a> {
    /// The path of its group in each control-group hierarchy.
    pub(super) cgroup: &'a str,
    /// Whether the machine uses cgroup v1, which the kubelet only accepts when it is told to.
    pub(super) cgroup_v1: bool,
    /// The cluster's authority.
    pub(super) authority: &'a Path,
    /// The certificate the kubelet serves with.
    pub(super) certificate: &'a KeyPairFiles,
    /// How often it looks after a pod's mounts, if not as by default.
    pub(super) sync: Option<Duration>,
}

impl Kubelet<'_> {
    /// <https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/>
    pub(super) fn configuration(&self) -> Value {
        let mut configuration = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": NODE_ADDRESS,
            "readOnlyPort": 0,
            "tlsCertFile": self.certificate.certificate,
            "tlsPrivateKeyFile": self.certificate.key,
            // Only the API server has such a certificate and a way to here.
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": false},
                "x509": {"clientCAFile": self.authority},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup,
            // The machine has other things to do: nothing is reserved, and pods are not more worth than they.
            "enforceNodeAllocatable": [],
            "oomScoreAdj": 0,
            "failSwapOn": false,
            // Nor is a full disk a reason to delete images that cannot be pulled again.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
            // There is no name server that could be reached.
            "resolvConf": "",
        });
        if self.cgroup_v1 {
            configuration["failCgroupV1"] = json!(false);
        }
        if let Some(sync) = self.sync {
            configuration["syncFrequency"] = json!(format!("{}s", sync.as_secs()));
        }
        configuration
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet(cgroup_v1: bool) -> Value {
        let certificate = KeyPairFiles { certificate: "/pki/node.crt".into(), key: "/pki/node.key".into() };
        let authority = Path::new("/pki/ca.crt");
        let cgroup = "/webservice-dev";
        Kubelet { cgroup, cgroup_v1, authority, certificate: &certificate, sync: None }.configuration()
    }

    #[test]
    fn the_kubelet_is_told_to_accept_cgroup_v1_only_where_the_machine_has_it() {
        assert_eq!(kubelet(true)["failCgroupV1"], false);
        assert_eq!(kubelet(false)["failCgroupV1"], Value::Null);
    }

    #[test]
    fn pods_stay_in_the_cluster_s_own_control_group() {
        assert_eq!(kubelet(true)["cgroupRoot"], "/webservice-dev");
    }

    #[test]
    fn containerd_finds_its_helpers_where_they_were_built() {
        let text = containerd(Path::new("/bin/shim"), Path::new("/bin/cni"), Path::new("/etc/cni"));
        for line in [
            r#"runtime_path = "/bin/shim""#,
            r#"cni.bin_dirs = ["/bin/cni"]"#,
            r#"cni.conf_dir = "/etc/cni""#,
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
