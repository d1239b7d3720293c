//! The image. What a reference is, [`crate::image`] knows.

use super::{Cause, Findings};
use crate::constants::MAX_IMAGE;
use crate::draft::{Draft, Json, Quoted};
use crate::image::{Fault, Reference};

/// What was read of an object's image, once for all rules; none where there is nothing that could be read.
pub(super) type Image<'r> = Option<Result<Reference<'r>, Fault<'r>>>;

/// Reads the image of an object, unless it is too long to be one.
pub(super) fn read<'r>(draft: &'r Draft<'_>) -> Image<'r> {
    given(draft).filter(|image| image.len() <= MAX_IMAGE).map(Reference::parse)
}

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
    } else if let Some(Err(fault)) = findings.image {
        let form = "must be an image reference host[:port]/path[:tag][@digest]";
        findings.add(Cause::Invalid, format!("{form}, found {}: {fault}", Quoted(image)));
    }
}

pub(super) fn image_is_pinned(_: &Draft<'_>, findings: &mut Findings<'_>) {
    let Some(Ok(reference)) = findings.image else { return };
    if reference.digest.is_none() && matches!(reference.tag, None | Some("latest")) {
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

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
