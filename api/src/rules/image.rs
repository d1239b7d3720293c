//! Image references.
//!
//! The grammar is that of the distribution project (`reference.go`): `[domain[:port]/]path[:tag][@digest]`.
//! [`oci_spec`] parses it and is right about most of it. What it is wrong about is checked on top: it accepts a bare name of
//! 64 hexadecimal digits (which engines read as an image id) and refuses IPv6 hosts.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use oci_spec::distribution::Reference;

use super::{Cause, Findings};
use crate::constants::MAX_IMAGE;
use crate::draft::{Draft, Json, Quoted};

pub(super) fn image_is_present(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    match &draft.spec.image {
        Json::Absent => findings.add(Cause::Required, "an image is required; write one such as nginx:1.27"),
        Json::Text(image) if image.trim().is_empty() => {
            findings.add(
                Cause::Required,
                "an image is required, found only blanks; write one such as nginx:1.27",
            );
        }
        Json::Text(_) => {}
        found => {
            findings.add(Cause::Invalid, format!("must be a string such as \"nginx:1.27\", found {found}"));
        }
    }
}

pub(super) fn image_is_a_reference(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    let Some(image) = given(draft) else { return };
    if image.len() > MAX_IMAGE {
        findings.add(Cause::TooLong, format!("must have at most {MAX_IMAGE} bytes, found {}", image.len()));
    } else if let Err(fault) = parse(image) {
        let form = "must be an image reference host[:port]/path[:tag][@digest]";
        findings.add(Cause::Invalid, format!("{form}, found {}: {fault}", Quoted(image)));
    }
}

pub(super) fn image_is_pinned(draft: &Draft<'_>, findings: &mut Findings<'_>) {
    let Some(Ok(reference)) = given(draft).filter(|image| image.len() <= MAX_IMAGE).map(parse) else {
        return;
    };
    if reference.digest().is_none() && matches!(reference.tag(), None | Some("latest")) {
        findings.add(
            Cause::Invalid,
            "has no tag or the tag latest, so what runs may change; name a version or a digest",
        );
    }
}

/// The image, where one is given.
fn given<'d>(draft: &'d Draft<'_>) -> Option<&'d str> {
    draft.spec.image.as_text().filter(|image| !image.trim().is_empty())
}

/// Parses a reference, or says what is wrong with it.
fn parse(image: &str) -> Result<Reference, String> {
    if let Some(odd) = image.chars().find(|letter| letter.is_whitespace() || letter.is_control()) {
        return Err(format!("{odd:?} is not allowed in it"));
    }
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err("64 hexadecimal digits are an image id; write name@sha256:… for a digest".into());
    }
    let image = with_plain_host(image)?;
    let reference = image.parse::<Reference>().map_err(|fault| fault.to_string())?;
    if reference.repository().bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("the repository must be lower-case".into());
    }
    Ok(reference)
}

/// Checks a host in brackets, and puts an ordinary one in its place for the parser, which knows none.
fn with_plain_host(image: &str) -> Result<Cow<'_, str>, String> {
    let Some(rest) = image.strip_prefix('[') else { return Ok(Cow::Borrowed(image)) };
    let (address, rest) =
        rest.split_once(']').ok_or("the bracket before the IPv6 address is never closed")?;
    address.parse::<Ipv6Addr>().map_err(|_| format!("{} is no IPv6 address", Quoted(address)))?;
    if !rest.starts_with([':', '/']) || !rest.contains('/') {
        return Err("the host must be followed by [:port]/path".into());
    }
    Ok(Cow::Owned(format!("ipv6.invalid{rest}")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("nginx")]
    #[case("nginx:1.27")]
    #[case("library/nginx:1.27")]
    #[case("registry.example.com/team/app:v1.0.0")]
    #[case("registry.example.com:5000/team/app")]
    #[case("localhost/app")]
    #[case("localhost:5000/app:x")]
    #[case("127.0.0.1:5000/app:x")]
    #[case("[::1]:5000/app:x")]
    #[case("[2001:db8::1]/app:x")]
    #[case("Registry.Example.com/app:x")]
    #[case("app:Tag_with.UPPER-case")]
    #[case("a/b/c/d/e:1")]
    #[case("a__b/c.d/e-f:1")]
    #[case("app@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    #[case("app:1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    fn references_are_accepted(#[case] image: &str) {
        assert!(parse(image).is_ok(), "{:?}", parse(image));
    }

    #[rstest]
    #[case("nginx:")]
    #[case(":1.27")]
    #[case("nginx:1.27:oops")]
    #[case("Nginx")]
    #[case("registry.example.com/Team/app")]
    #[case("nginx:.dot")]
    #[case("nginx:-dash")]
    #[case("nginx: 1")]
    #[case(" nginx")]
    #[case("nginx\n")]
    #[case("/nginx")]
    #[case("nginx/")]
    #[case("a//b")]
    #[case("a..b/c")]
    #[case("a/-b")]
    #[case("https://registry.example.com/app")]
    #[case("app@sha256:short")]
    #[case("app@sha256")]
    #[case("app@")]
    #[case("app@md5:d41d8cd98f00b204e9800998ecf8427e")]
    #[case("[::1:5000/app")]
    #[case("[zz]/app")]
    #[case("[::1]")]
    #[case("[::1]app")]
    #[case("host:port/app")]
    #[case("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    #[case("ngіnx")] // a Cyrillic letter
    fn other_texts_are_not(#[case] image: &str) {
        assert!(parse(image).is_err());
    }

    #[test]
    fn a_tag_has_at_most_128_characters() {
        assert!(parse(&format!("app:{}", "a".repeat(128))).is_ok());
        assert!(parse(&format!("app:{}", "a".repeat(129))).is_err());
    }

    #[rstest]
    #[case("nginx", true)]
    #[case("nginx:latest", true)]
    #[case("nginx:1.27", false)]
    #[case("nginx:latest@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", false)]
    fn a_floating_tag_is_warned_about(#[case] image: &str, #[case] warned: bool) {
        let json = format!(r#"{{"spec": {{"image": "{image}"}}}}"#);
        assert_eq!(!super::super::check(&serde_json::from_str(&json).unwrap()).warnings.is_empty(), warned);
    }
}
