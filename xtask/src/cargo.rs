//! Cargo, called from a program that cargo runs.

pub(crate) use webservice_tests::cargo::cargo;

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
