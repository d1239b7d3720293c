//! Helm and the chart, for tests and for what is generated.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;
use tokio::time::timeout;

use crate::cargo::root;
use crate::cluster::assets::{self, Part};
use crate::cluster::progress::Progress;

/// Longer than any `--timeout` that is given to it.
const DEADLINE: Duration = Duration::from_mins(15);

/// The chart's directory.
#[must_use]
pub fn chart() -> PathBuf {
    root().join("charts/webservice-operator")
}

/// What a command of Helm printed, or all that it said where it failed.
pub type Answer = std::result::Result<String, String>;

/// One version of Helm, without any configuration of the person who runs it. It is built if it is missing.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// For commands that need no cluster.
    pub async fn new(version: &Part, progress: &dyn Progress) -> Result<Self> {
        Ok(Self { program: assets::program(version, progress).await?, kubeconfig: None })
    }

    /// For a cluster.
    #[must_use]
    pub fn on(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    /// Runs a command to its end. That it failed is no error here.
    pub async fn run<S: AsRef<str>>(&self, arguments: &[S]) -> Result<Answer> {
        let home = tempfile::tempdir().context("failed to create a home for helm")?;
        let kubeconfig = self.kubeconfig.as_deref().unwrap_or(Path::new("/dev/null"));
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", home.path()).env("KUBECONFIG", kubeconfig);
        command.args(arguments.iter().map(AsRef::as_ref)).current_dir(root());
        let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let ended = timeout(DEADLINE, ended).await.context("helm has not ended")?;
        let Output { status, stdout, stderr } = ended.context("failed to start helm")?;
        let text = |bytes| String::from_utf8(bytes).context("failed to read what helm says");
        Ok(if status.success() { Ok(text(stdout)?) } else { Err(text([stdout, stderr].concat())?) })
    }
}
