//! The operator's image: both programs in it, and nothing else but the licence. The Dockerfile makes the same for people with Docker.
//!
//! The programs are linked statically against glibc. Nothing of the system has to be in the image then, and a program with its libc
//! is smaller than one beside the libraries that it needs. musl would do as well where its target is installed; glibc's allocator is
//! the faster one.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, root};
use crate::image::{Image, ImageFile};

const PROGRAMS: [&str; 2] = ["webservice-controller", "webservice-webhook"];

/// The image's name on a local node, which never asks a registry for it.
pub const LOCAL: &str = "localhost/webservice-operator:local";

/// The chart's values for an image that is on the node already, as an argument of Helm.
#[must_use]
pub fn values(name: &str) -> String {
    let (repository, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
    format!("--set=image.repository={repository},image.tag={tag},image.pullPolicy=Never")
}

/// How the programs are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Quickly, for the tests.
    Dev,
    /// As it is shipped.
    Release,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// Builds the programs and says what their image is.
pub async fn build(name: &str, profile: Profile) -> Result<Image> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // A target by name, although it is the machine's own: otherwise the flags hold for build scripts and macros, too.
    let mut command = cargo(&["build", "--locked", "--profile", profile.name(), "--target", &target]);
    command.args(PROGRAMS.map(|program| format!("--package={program}")));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags().join("\u{1f}")).env("CARGO_PROFILE_DEV_DEBUG", "0");
    let built = command.stdin(Stdio::null()).output().await.context("failed to start cargo")?;
    let complaint = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "failed to build the image's programs:\n{complaint}");

    let directory = root().join("target").join(target).join(profile.directory());
    let [controller, webhook] = PROGRAMS.map(|program| directory.join(program));
    let mut image = Image::of_programs(name, &[&controller, &webhook])?;
    let licence = ImageFile { path: "/LICENSE".into(), source: root().join("LICENSE"), mode: 0o644 };
    image.layers.push(vec![licence]);
    Ok(image)
}

/// The same bytes wherever the checkout and cargo's home are.
fn flags() -> Vec<String> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned(), "-Cstrip=symbols".to_owned()];
    let moved = [(Some(root()), "/source"), (cargo_home(), "/cargo")];
    for (from, to) in moved {
        flags.extend(from.map(|from| format!("--remap-path-prefix={}={to}", from.display())));
    }
    flags
}

fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}
