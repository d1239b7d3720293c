//! Cargo, called from a program that cargo runs.

use std::env;

use tokio::process::Command;

use crate::root;

/// Variables that `cargo run` sets for this program, by their beginning. Build scripts (ring's) ask for some of them: handed
/// on, they would make a `cargo build` from here differ from one in a shell, and each would build half of the dependencies
/// again after the other.
const OWN: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// `cargo ARGS` in the repository's root, which ends when it is dropped.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| OWN.iter().any(|own| name.starts_with(own))) {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(root()).kill_on_drop(true);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its feature `gzip` the client asks for compressed watches, of which it cannot read the first event: each is
    /// compressed by itself.
    #[tokio::test]
    async fn the_client_asks_for_no_compressed_answers() {
        let tree = ["tree", "--workspace", "--locked", "--prefix=none", "--format={p} {f}"];
        let output = cargo(&tree).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut clients = text.lines().filter(|line| line.starts_with("kube-client ")).peekable();
        assert!(clients.peek().is_some(), "{text}");
        assert!(clients.all(|client| !client.contains("gzip")), "{text}");
    }
}
