use oci_spec::distribution::Reference as OciReference;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

const SHA256: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn parts(text: &str) -> [Option<&str>; 4] {
    let Reference { host, path, tag, digest } = Reference::parse(text).unwrap();
    [host, Some(path), tag, digest]
}

#[rstest]
#[case("nginx", [None, Some("nginx"), None, None])]
#[case("nginx:1.27", [None, Some("nginx"), Some("1.27"), None])]
#[case("library/nginx:1.27", [None, Some("library/nginx"), Some("1.27"), None])]
#[case("a/b.example.com/c:5000", [None, Some("a/b.example.com/c"), Some("5000"), None])]
#[case("example.com/team/app:v1.0.0", [Some("example.com"), Some("team/app"), Some("v1.0.0"), None])]
#[case("example.com:5000/team/app", [Some("example.com:5000"), Some("team/app"), None, None])]
#[case("localhost:5000", [None, Some("localhost"), Some("5000"), None])]
#[case("localhost/app", [Some("localhost"), Some("app"), None, None])]
#[case("localhost:5000/app:x", [Some("localhost:5000"), Some("app"), Some("x"), None])]
#[case("127.0.0.1:5000/app:x", [Some("127.0.0.1:5000"), Some("app"), Some("x"), None])]
#[case("[::1]:5000/app:x", [Some("[::1]:5000"), Some("app"), Some("x"), None])]
#[case("[2001:db8::1]/app", [Some("[2001:db8::1]"), Some("app"), None, None])]
#[case("Example.COM/app:x", [Some("Example.COM"), Some("app"), Some("x"), None])]
#[case("Team/app", [Some("Team"), Some("app"), None, None])]
#[case("xn--n3h.example.com/app", [Some("xn--n3h.example.com"), Some("app"), None, None])]
#[case("app:Tag_with.UPPER-case", [None, Some("app"), Some("Tag_with.UPPER-case"), None])]
#[case("a__b/c.d/e---f:1", [None, Some("a__b/c.d/e---f"), Some("1"), None])]
fn references_are_taken_apart(#[case] text: &str, #[case] expected: [Option<&str>; 4]) {
    assert_eq!(parts(text), expected);
}

#[test]
fn a_digest_may_follow_a_name_or_a_tag() {
    for (name, tag) in [("app", None), ("app:1", Some("1"))] {
        assert_eq!(parts(&format!("{name}@{SHA256}")), [None, Some("app"), tag, Some(SHA256)]);
    }
    for (algorithm, length) in ALGORITHMS {
        assert!(Reference::parse(&format!("app@{algorithm}:{}", "0".repeat(length))).is_ok());
    }
}

#[rstest]
#[case("", "a path is", "the end")]
#[case("nginx:", "a tag is", "the end behind \"nginx:\"")]
#[case(":1.27", "a path is", "':' at character 1")]
#[case("nginx:1.27:oops", "a tag is", "':' at character 11")]
#[case("Nginx", "a path is lower-case", "'N' at character 1")]
#[case("example.com/Team/app", "a path is lower-case", "'T' at character 13")]
#[case("nginx:.dot", "a tag is", "'.' at character 7")]
#[case("nginx:-dash", "a tag is", "'-' at character 7")]
#[case("nginx: 1", "a tag is", "' ' at character 7")]
#[case(" nginx", "a path is", "' ' at character 1")]
#[case("nginx\n", "a path is", "'\\n' at character 6")]
#[case("nginx\0", "a path is", "'\\0' at character 6")]
#[case("/nginx", "a path is", "'/' at character 1")]
#[case("nginx/", "a path is", "the end")]
#[case("a//b", "a path is", "'/' at character 3")]
#[case("a/../b", "a path is", "'.' at character 3")]
#[case("a..b", "a path is", "'.' at character 3")]
#[case("a___b", "a path is", "'_' at character 4")]
#[case("a-_b", "a path is", "'_' at character 3")]
#[case("a/-b", "a path is", "'-' at character 3")]
#[case("a-/b", "a path is", "'/' at character 3")]
#[case("a..b/c", "a host is", "'.' at character 3")]
#[case("a.b_c/d", "a host is", "'_' at character 4")]
#[case("a.-b/c", "a host is", "'-' at character 3")]
#[case("a.b./c", "a host is", "'/' at character 5")]
#[case("a.b-.c/d", "a host is", "'.' at character 5")]
#[case("host:port/app", "a port is", "'p' at character 6")]
#[case("host:/app", "a port is", "'/' at character 6")]
#[case("host:1:2/app", "a port is", "':' at character 7")]
#[case(":5000/app", "a host is", "':' at character 1")]
#[case("[::1/app", "the bracket", "'/' at character 5")]
#[case("[::1:5000/app", "the bracket", "'/' at character 10")]
#[case("[1.2.3.4]/app", "an IPv6 address", "'1' at character 2")]
#[case("[1::2::3]/app", "an IPv6 address", "'1' at character 2")]
#[case("[::1%eth0]/app", "an IPv6 address", "':' at character 2")]
#[case("[::1]x/app", "an IPv6 address", "'x' at character 6")]
#[case("[::1]:/app", "a port is", "'/' at character 7")]
#[case("[::1]/", "a path is", "the end")]
#[case("[::1]", "a path is", "'[' at character 1")]
#[case("[zz]/app", "a path is", "'[' at character 1")]
#[case("app@sha256:short", "a digest is", "'s' at character 12")]
#[case("app@sha256", "a digest is", "'s' at character 5")]
#[case("app@", "a digest is", "the end")]
#[case("app@md5:d41d8cd98f00b204e9800998ecf8427e", "a digest is", "'m' at character 5")]
#[case("@sha256:00", "a path is", "'@' at character 1")]
#[case("ngіnx", "a path is", "'і' at character 3")] // a Cyrillic letter
#[case("é/x:1", "a path is", "'é' at character 1")]
fn a_fault_says_what_is_wrong_and_where(#[case] text: &str, #[case] demand: &str, #[case] found: &str) {
    let fault = Reference::parse(text).unwrap_err().to_string();
    assert!(fault.starts_with(demand) && fault.contains(found), "{fault}");
}

#[test]
fn digests_are_exactly_as_long_as_their_algorithm_says_and_in_lower_case() {
    let hex = &SHA256["sha256:".len()..];
    let faults = [
        (&hex[1..], "the end"),
        (&format!("{hex}0"), "'0' at character 76"),
        (&hex.to_uppercase(), "'E' at character 12"),
    ];
    for (hex, found) in faults {
        let text = format!("app@sha256:{hex}");
        let fault = Reference::parse(&text).unwrap_err().to_string();
        assert!(fault.contains(found), "{fault}");
    }
}

#[test]
fn what_engines_take_for_something_else_is_named() {
    for (text, hint) in [
        (&SHA256["sha256:".len()..], "image id"),
        ("https://example.com/app", "no scheme; begin with the host"),
    ] {
        assert!(Reference::parse(text).unwrap_err().to_string().contains(hint));
    }
}

#[test]
fn a_tag_has_at_most_128_characters() {
    assert!(Reference::parse(&format!("app:{}", "a".repeat(128))).is_ok());
    let text = format!("app:{}", "a".repeat(129));
    assert!(Reference::parse(&text).unwrap_err().to_string().starts_with("a tag has at most 128"));
}

#[test]
fn a_path_has_at_most_255_characters_with_what_engines_add_to_it() {
    let path = |length: usize| "a".repeat(length);
    for (host, longest) in [("", 247), ("index.docker.io/", 247), ("team/", 250), ("example.com/", 255)] {
        assert!(Reference::parse(&format!("{host}{}", path(longest))).is_ok(), "{host}");
        let text = format!("{host}{}", path(longest + 1));
        assert!(Reference::parse(&text).unwrap_err().to_string().contains("255"), "{host}");
    }
}

#[rstest]
#[case("nginx", "docker.io")]
#[case("team/app", "docker.io")]
#[case("docker.io/team/app", "docker.io")]
#[case("index.docker.io/team/app", "docker.io")]
#[case("example.com:5000/app", "example.com:5000")]
fn a_reference_without_a_host_is_on_docker_hub(#[case] text: &str, #[case] registry: &str) {
    assert_eq!(Reference::parse(text).unwrap().registry(), registry);
}

/// Why `oci-spec` answers otherwise, where it is known to.
fn known_difference(text: &str) -> Option<&'static str> {
    let (name, digest) = split_at_first(text, '@');
    let first = name.split_once('/').map_or("", |(first, _)| first);
    let is_upper = |text: &str| text.bytes().any(|byte| byte.is_ascii_uppercase());
    let reasons = [
        (is_image_id(text), "it takes an image id for a name"),
        (first.starts_with('['), "it knows no IPv6 hosts"),
        (
            digest.is_some_and(is_upper),
            "it takes digests in upper case, and none of upper-case algorithms is known",
        ),
        (!text.is_ascii(), "its \\w is any letter of Unicode"),
        (is_host(first) && first.contains('_'), "it takes what is no valid host for a part of the path"),
        (
            is_upper(first) && !first.contains(['.', ':']),
            "it looks for a host in lower-case names only, and leaves upper case in the path",
        ),
    ];
    reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

fn any_text() -> impl Strategy<Value = String> {
    let host = r"(localhost|[a-zA-Z0-9.-]{1,8}|\[[0-9a-f:]{1,6}\])(:[0-9]{0,3})?/";
    let digest = format!(
        "@({SHA256}|sha256:[0-9a-fA-F]{{62,66}}|sha512:[0-9a-f]{{128}}|[a-z+]{{1,4}}:[0-9a-f]{{32}})"
    );
    let likely = format!(r"({host})?[a-z0-9._/-]{{1,8}}(:[\w.-]{{0,4}})?({digest})?");
    prop_oneof![
        prop::string::string_regex(&likely).unwrap(),
        "[a-zA-Z0-9_./:@\\[\\]-]{0,16}",
        "(team/|a\\.b/)?[a-z]{240,260}(:[a-z]{120,130})?",
        "\\PC{0,8}",
    ]
}

proptest! {
    #[test]
    fn oci_spec_agrees_but_for_known_differences(text in any_text()) {
        let (ours, theirs) = (Reference::parse(&text), text.parse::<OciReference>());
        match (&ours, &theirs) {
            _ if known_difference(&text).is_some() => {}
            (Ok(ours), Ok(theirs)) => {
                prop_assert_eq!(ours.registry(), theirs.registry());
                prop_assert!(theirs.repository().ends_with(ours.path));
                let tag = ours.tag.or(ours.digest.is_none().then_some("latest"));
                prop_assert_eq!((tag, ours.digest), (theirs.tag(), theirs.digest()));
            }
            _ => prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}: {:?}, {:?}", text, ours, theirs),
        }
    }

    #[test]
    fn the_parts_make_up_the_whole(text in any_text()) {
        if let Ok(Reference { host, path, tag, digest }) = Reference::parse(&text) {
            let part = |sign: &str, part: Option<&str>| part.map_or(String::new(), |part| format!("{sign}{part}"));
            let host = host.map_or(String::new(), |host| format!("{host}/"));
            prop_assert_eq!(format!("{host}{path}{}{}", part(":", tag), part("@", digest)), text);
        }
    }

    #[test]
    fn a_fault_can_always_be_told(text in any_text()) {
        if let Err(fault) = Reference::parse(&text) {
            prop_assert!(!fault.to_string().is_empty());
        }
    }
}
