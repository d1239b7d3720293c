//! What has to work for a test to say anything.

use anyhow::Error;

/// Unwraps what has to work.
pub(super) trait Must<T> {
    /// The value, or a panic that says what was tried: `failed to WHAT: WHY`.
    fn must(self, what: &str) -> T;
}

impl<T, E: Into<Error>> Must<T> for Result<T, E> {
    #[track_caller]
    fn must(self, what: &str) -> T {
        self.unwrap_or_else(|error| panic!("failed to {what}: {}", chain(&error.into())))
    }
}

/// The error and its causes, without those that repeat what was said before them.
fn chain(error: &Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text {
        empty if empty.is_empty() => cause,
        said if said.contains(&cause) => said,
        text => format!("{text}: {cause}"),
    })
}
