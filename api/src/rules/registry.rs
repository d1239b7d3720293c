//! Where images come from, and where they may come from.

use std::fmt;

use crate::image::{DOCKER_HUB, DOCKER_HUB_LEGACY, OFFICIAL, Reference};

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
        let image = format!("{host}/{}", prefix.unwrap_or("any"));
        let Reference { host, tag: None, digest: None, .. } = Reference::parse(&image).ok()? else {
            return None;
        };
        Some(Self { host: normal(host?), prefix: prefix.unwrap_or_default().to_owned() })
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
    /// Where container engines fetch an image.
    pub(super) fn of(image: Reference<'i>) -> Self {
        let (host, path) = (normal(image.registry()), image.path);
        let is_official = host == DOCKER_HUB && !path.contains('/');
        let path = if is_official { format!("{OFFICIAL}{path}").into() } else { path.into() };
        Self { host, path }
    }
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)
    }
}

fn normal(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if host == DOCKER_HUB_LEGACY { DOCKER_HUB.to_owned() } else { host }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("nginx", "docker.io/library/nginx")]
    #[case("nginx:1.27", "docker.io/library/nginx")]
    #[case("team/app:1", "docker.io/team/app")]
    #[case("docker.io/nginx", "docker.io/library/nginx")]
    #[case("index.docker.io/team/app", "docker.io/team/app")]
    #[case("Docker.IO/team/app", "docker.io/team/app")]
    #[case("localhost/app:1", "localhost/app")]
    #[case("registry.example.com:5000/team/app:1", "registry.example.com:5000/team/app")]
    #[case("[::1]:5000/app:1", "[::1]:5000/app")]
    #[case("Host/app", "host/app")]
    fn an_image_comes_from_where_engines_fetch_it(#[case] image: &str, #[case] source: &str) {
        assert_eq!(Source::of(Reference::parse(image).unwrap()).to_string(), source);
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
        assert_eq!(
            Registry::parse(registry).unwrap().holds(&Source::of(Reference::parse(image).unwrap())),
            allowed
        );
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
