//! What the fuzzer found interesting is tried again.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "it is a library there")]
mod properties;

/// How many inputs the corpus of a target has, after each was tried.
fn replay(target: &str, property: fn(&[u8])) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(corpus).unwrap();
    files.map(|file| property(&fs::read(file.unwrap().path()).unwrap())).count()
}

#[test]
fn the_corpus_of_reviews_holds() {
    assert!(replay("review", properties::review) >= 20);
}

#[test]
fn the_corpus_of_image_references_holds() {
    let image = |text: &[u8]| std::str::from_utf8(text).map_or((), properties::image);
    assert!(replay("image", image) >= 20);
}

#[test]
fn the_corpus_of_policies_holds() {
    assert!(replay("policy", properties::policy) >= 20);
}
