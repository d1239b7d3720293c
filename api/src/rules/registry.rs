//! Where images come from, and where they may come from.

use std::fmt;

/// The registry that a name without one means.
const DOCKER_HUB: &str = "docker.io";
/// The same under its old name.
const OLD_DOCKER_HUB: &str = "index.docker.io";

/// A registry or a part of one, as a policy allows it: `host[:port][/path-prefix]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Registry {
    host: String,
    /// Whole components of a path; empty for the whole registry.
    prefix: String,
}

impl Registry {
    /// What to write instead of something that is none.
    pub(super) const REMEDY: &str =
        "write host[:port][/path-prefix], such as docker.io/library or registry.example.com:5000";

    /// Reads one. A host must be recognisable as such, as in an image reference: `team` alone could be a host or a part of
    /// Docker Hub.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, prefix) = text.split_once('/').map_or((text, None), |(host, prefix)| (host, Some(prefix)));
        let is_sound = is_host(host) && has_sound_host(host) && prefix.is_none_or(is_path);
        is_sound.then(|| Self { host: normal(host), prefix: prefix.unwrap_or_default().to_owned() })
    }

    /// Whether an image from there is allowed by it.
    pub(super) fn holds(&self, source: &Source<'_>) -> bool {
        let rest = source.path.strip_prefix(&self.prefix);
        source.host == self.host
            && rest.is_some_and(|rest| self.prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "{}{separator}{}", self.host, self.prefix)
    }
}

/// The repository of an image in full.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Source<'i> {
    host: String,
    path: std::borrow::Cow<'i, str>,
}

impl<'i> Source<'i> {
    /// Reads a sound image reference as container engines do (`splitDockerDomain` of the distribution project).
    pub(super) fn of(image: &'i str) -> Self {
        let name = image.split_once('@').map_or(image, |(name, _digest)| name);
        let (host, rest) = match name.split_once('/') {
            Some((host, rest)) if is_host(host) => (normal(host), rest),
            _ => (DOCKER_HUB.to_owned(), name),
        };
        let path = rest.split_once(':').map_or(rest, |(path, _tag)| path);
        let is_official = host == DOCKER_HUB && !path.contains('/');
        let path = if is_official { format!("library/{path}").into() } else { path.into() };
        Self { host, path }
    }
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)
    }
}

/// Whether the first component of a name is a host and no part of a path.
fn is_host(text: &str) -> bool {
    text == "localhost" || text.contains(['.', ':']) || text.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn normal(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if host == OLD_DOCKER_HUB { DOCKER_HUB.to_owned() } else { host }
}

/// A DNS name or an IP address, which stands in brackets where it is of version 6, and a port.
fn has_sound_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_name = |host: &str| {
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        host.split('.').all(is_label)
    };
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_address = address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    (is_address || is_name(host)) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_path(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    text.split('/').all(|component| !component.is_empty() && component.bytes().all(is_inner))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("nginx", "docker.io/library/nginx")]
    #[case("nginx:1.27", "docker.io/library/nginx")]
    #[case("team/app:1@sha256:e3b0", "docker.io/team/app")]
    #[case("docker.io/nginx", "docker.io/library/nginx")]
    #[case("index.docker.io/team/app", "docker.io/team/app")]
    #[case("Docker.IO/team/app", "docker.io/team/app")]
    #[case("localhost/app:1", "localhost/app")]
    #[case("registry.example.com:5000/team/app:1", "registry.example.com:5000/team/app")]
    #[case("[::1]:5000/app:1", "[::1]:5000/app")]
    #[case("Host/app", "host/app")]
    fn an_image_comes_from_where_engines_fetch_it(#[case] image: &str, #[case] source: &str) {
        assert_eq!(Source::of(image).to_string(), source);
    }

    #[rstest]
    #[case("docker.io", "nginx", true)]
    #[case("docker.io", "team/app", true)]
    #[case("docker.io", "quay.io/team/app", false)]
    #[case("docker.io/library", "nginx:1", true)]
    #[case("docker.io/library", "team/app", false)]
    #[case("Index.Docker.io/team", "team/app", true)]
    #[case("quay.io/team", "quay.io/team/app:1", true)]
    #[case("quay.io/team", "quay.io/team:1", true)]
    #[case("quay.io/team", "quay.io/teamster/app", false)]
    #[case("quay.io", "quay.io:443/app", false)]
    #[case("quay.io:443", "quay.io:443/app", true)]
    #[case("quay.io", "quay.io.evil.example/app", false)]
    #[case("[::1]:5000", "[::1]:5000/app", true)]
    fn a_registry_allows_what_is_below_it(
        #[case] registry: &str,
        #[case] image: &str,
        #[case] allowed: bool,
    ) {
        assert_eq!(Registry::parse(registry).unwrap().holds(&Source::of(image)), allowed);
    }

    #[rstest]
    #[case("")]
    #[case("team")]
    #[case("team/app")]
    #[case("https://quay.io")]
    #[case("quay.io/")]
    #[case("quay.io//team")]
    #[case("quay.io/Team")]
    #[case("quay.io/team/*")]
    #[case("quay.io/app:1")]
    #[case("quay.io:port")]
    #[case("quay..io")]
    #[case("*.example.com")]
    #[case("quay.io ")]
    #[case("[::1")]
    fn what_could_be_misread_is_no_registry(#[case] text: &str) {
        assert_eq!(Registry::parse(text), None);
    }
}
