//! Cargo, called from a program that cargo runs.

use std::env;
use std::path::{Path, PathBuf};

use tokio::process::Command;

/// Variables that `cargo run` sets for this program, by their beginning. Build scripts (ring's) ask for some of them: handed
/// on, they would make a `cargo build` from here differ from one in a shell, and each would build half of the dependencies
/// again after the other.
const OWN: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// `cargo ARGS` in the repository's root, which ends when it is dropped.
#[must_use]
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| OWN.iter().any(|own| name.starts_with(own))) {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(root()).kill_on_drop(true);
    command
}

/// The repository.
#[must_use]
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}
