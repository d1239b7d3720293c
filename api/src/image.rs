//! Image references, as the engines read them.
//!
//! The grammar is that of the distribution project (`github.com/distribution/reference`):
//! `[host[:port]/]path[:tag][@digest]`. Before it is applied, engines look at what stands before the first `/`: it is a host
//! where it is `localhost` or has a `.`, a `:` or an upper-case letter in it, and the beginning of a path otherwise.

use std::fmt;
use std::net::Ipv6Addr;

use crate::draft::Quoted;

/// Longest path, with the `library/` that engines put before a name of one part on Docker Hub.
pub const MAX_PATH: usize = 255;
/// Longest tag.
const MAX_TAG: usize = 128;
/// Digest algorithms, and how many hexadecimal digits each has.
const ALGORITHMS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// The host that is meant where none is given.
pub const DOCKER_HUB: &str = "docker.io";
/// What it was called once; engines still take one for the other.
pub(crate) const DOCKER_HUB_LEGACY: &str = "index.docker.io";
/// Where the names of one part are on Docker Hub.
pub(crate) const OFFICIAL: &str = "library/";

/// A well-formed reference, in its parts as they were written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reference<'a> {
    /// Host and port, such as `registry.example.com:5000`.
    pub host: Option<&'a str>,
    /// Path of the repository, such as `team/app`.
    pub path: &'a str,
    /// Tag, such as `1.27`.
    pub tag: Option<&'a str>,
    /// Digest, such as `sha256:…`.
    pub digest: Option<&'a str>,
}

/// What is wrong with a reference, and where.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault<'a> {
    text: &'a str,
    /// The first byte that does not fit, or the length of the text where something is missing; none where all of it is wrong.
    at: Option<usize>,
    demand: &'static str,
}

/// "a tag is …, found ':' at character 11".
impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.demand)?;
        let Some((before, rest)) = self.at.and_then(|at| self.text.split_at_checked(at)) else {
            return Ok(());
        };
        match rest.chars().next() {
            Some(letter) => write!(f, ", found {letter:?} at character {}", before.chars().count() + 1),
            None => write!(f, ", found the end behind {}", Quoted(before)),
        }
    }
}

impl<'a> Reference<'a> {
    /// Reads a reference.
    ///
    /// # Errors
    /// The first fault, for a person.
    pub fn parse(text: &'a str) -> Result<Self, Fault<'a>> {
        let fault = |demand| Err(Fault { text, at: None, demand });
        match Self::take_apart(text) {
            Err(_) if text.contains("://") => fault("a reference has no scheme; begin with the host"),
            Ok(_) if is_image_id(text) => {
                fault("64 hexadecimal digits are an image id; write name@sha256:… for a digest")
            }
            Ok(reference) if reference.is_too_long() => {
                fault("the path of a repository has at most 255 characters")
            }
            parsed => parsed,
        }
    }

    fn take_apart(text: &'a str) -> Result<Self, Fault<'a>> {
        let (name, digest) = split_at_first(text, '@');
        let (host, rest) = match name.split_once('/') {
            Some((first, rest)) if is_host(first) => (Some(first), rest),
            _ => (None, name),
        };
        let (path, tag) = split_at_first(rest, ':');

        let found = |start: usize| move |(at, demand)| Fault { text, at: Some(start + at), demand };
        let path_start = host.map_or(0, |host| host.len() + 1);
        let tag_start = path_start + path.len() + 1;
        check(host, check_host).map_err(found(0))?;
        check_path(path).map_err(found(path_start))?;
        check(tag, check_tag).map_err(found(tag_start))?;
        check(digest, check_digest).map_err(found(name.len() + 1))?;
        Ok(Self { host, path, tag, digest })
    }

    /// The host that is asked for the image.
    #[must_use]
    pub fn registry(&self) -> &'a str {
        match self.host {
            None | Some(DOCKER_HUB_LEGACY) => DOCKER_HUB,
            Some(host) => host,
        }
    }

    fn is_too_long(&self) -> bool {
        let is_official = self.registry() == DOCKER_HUB && !self.path.contains('/');
        let prefix = if is_official { OFFICIAL.len() } else { 0 };
        prefix + self.path.len() > MAX_PATH
    }
}

/// Where something does not fit, in bytes from the beginning of its part, and what should stand there.
type Misfit = (usize, &'static str);

fn check(part: Option<&str>, rule: fn(&str) -> Result<(), Misfit>) -> Result<(), Misfit> {
    part.map_or(Ok(()), rule)
}

fn split_at_first(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, behind)) => (before, Some(behind)),
        None => (text, None),
    }
}

fn is_image_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn is_host(first: &str) -> bool {
    first == "localhost" || first.bytes().any(|byte| matches!(byte, b'.' | b':') || byte.is_ascii_uppercase())
}

/// Fails at the first byte that does not fit, given the byte before it, which for the first one is 0.
fn check_bytes(text: &str, demand: &'static str, mut fits: impl FnMut(u8, u8) -> bool) -> Result<(), Misfit> {
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !fits(byte, before) {
            return Err((at, demand));
        }
        before = byte;
    }
    Ok(())
}

/// Fails at the end of a text whose last byte does not fit.
fn check_last(text: &str, demand: &'static str, fits: fn(u8) -> bool) -> Result<(), Misfit> {
    if text.bytes().last().is_some_and(fits) { Ok(()) } else { Err((text.len(), demand)) }
}

fn check_host(host: &str) -> Result<(), Misfit> {
    if host.starts_with('[') {
        return check_ipv6_host(host);
    }
    let (name, port) = split_at_first(host, ':');
    let demand = "a host is letters, digits and '.', with '-' between them";
    let is_alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    check_bytes(name, demand, |byte, before| match byte {
        b'.' => is_alphanumeric(before),
        b'-' => is_alphanumeric(before) || before == b'-',
        _ => is_alphanumeric(byte),
    })?;
    check_last(name, demand, is_alphanumeric)?;
    check_port(port).map_err(|(at, demand)| (name.len() + 1 + at, demand))
}

fn check_ipv6_host(host: &str) -> Result<(), Misfit> {
    let Some((address, port)) = host[1..].split_once(']') else {
        return Err((host.len(), "the bracket before an IPv6 address is closed by ']'"));
    };
    let is_plain = address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    if !is_plain || address.parse::<Ipv6Addr>().is_err() {
        return Err((1, "an IPv6 address such as [::1] stands in the brackets"));
    }
    let behind = address.len() + 2;
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(()),
        None => Err((behind, "an IPv6 address is followed by [:port]/path")),
        port => check_port(port).map_err(|(at, demand)| (behind + 1 + at, demand)),
    }
}

fn check_port(port: Option<&str>) -> Result<(), Misfit> {
    let Some(port) = port else { return Ok(()) };
    let demand = "a port is digits";
    check_bytes(port, demand, |byte, _| byte.is_ascii_digit())?;
    if port.is_empty() { Err((0, demand)) } else { Ok(()) }
}

fn check_path(path: &str) -> Result<(), Misfit> {
    let demand = "a path is lower-case letters and digits, with one '.', one or two '_', or any number of '-' between them";
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut underscores = 0;
    check_bytes(path, demand, |byte, before| {
        underscores = if byte == b'_' { underscores + 1 } else { 0 };
        match byte {
            b'.' | b'/' => is_alphanumeric(before),
            b'-' => is_alphanumeric(before) || before == b'-',
            b'_' => is_alphanumeric(before) || (before == b'_' && underscores == 2),
            _ => is_alphanumeric(byte),
        }
    })?;
    check_last(path, demand, is_alphanumeric)
}

fn check_tag(tag: &str) -> Result<(), Misfit> {
    let demand = "a tag is letters, digits, '_', '.' and '-', and begins with none of the last two";
    check_bytes(tag, demand, |byte, before| match byte {
        b'.' | b'-' => before != 0,
        _ => byte.is_ascii_alphanumeric() || byte == b'_',
    })?;
    match tag.len() {
        0 => Err((0, demand)),
        1..=MAX_TAG => Ok(()),
        _ => Err((MAX_TAG, "a tag has at most 128 characters")),
    }
}

fn check_digest(digest: &str) -> Result<(), Misfit> {
    let demand = "a digest is sha256:, sha384: or sha512: and 64, 96 or 128 lower-case hexadecimal digits";
    let known = ALGORITHMS.iter().find_map(|(name, length)| {
        let encoded = digest.strip_prefix(name)?.strip_prefix(':')?;
        Some((encoded, name.len() + 1, *length))
    });
    let Some((encoded, start, length)) = known else { return Err((0, demand)) };
    check_bytes(encoded, demand, |byte, _| is_lower_hex(byte))
        .map_err(|(at, demand)| (start + at, demand))?;
    if encoded.len() == length { Ok(()) } else { Err((start + encoded.len().min(length), demand)) }
}

#[cfg(test)]
mod tests;
