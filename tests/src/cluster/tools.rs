//! Tools that check and install the chart. No cluster needs them; each is built when it is asked for.

use std::path::PathBuf;

use anyhow::Result;

use super::assets::{self, Part};
use super::state::Tier;

/// Helm 3.
pub const HELM_3: Part = tool("helm3", "helm3", "helm.sh/helm/v3/cmd/helm", 60);
/// Helm 4.
pub const HELM_4: Part = tool("helm4", "helm4", "helm.sh/helm/v4/cmd/helm", 90);
/// Checks manifests against schemas.
pub const KUBECONFORM: Part =
    tool("kubeconform", "kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", 5);
/// Knows what manifests of good citizens look like.
pub const KUBE_SCORE: Part =
    tool("kube-score", "kube-score", "github.com/zegl/kube-score/cmd/kube-score", 65);
/// Checks metrics, and runs alerts against series that are written by hand.
pub const PROMTOOL: Part = tool("promtool", "promtool", "github.com/prometheus/prometheus/cmd/promtool", 180);
/// cert-manager in one process: issuers and the CA injector.
pub const CERT_MANAGER: Part = tool("cert-manager", "cert-manager", ".", 90);

/// The directory with the definitions of cert-manager's objects.
pub async fn cert_manager_crds() -> Result<PathBuf> {
    let sources = assets::sources("cert-manager", "github.com/cert-manager/cert-manager").await?;
    Ok(sources.join("deploy/crds"))
}

const fn tool(name: &'static str, module: &'static str, package: &'static str, seconds: u64) -> Part {
    Part { name, module, package, tier: Tier::ControlPlane, seconds }
}
