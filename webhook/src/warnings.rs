//! Warnings within the API server's limits: it drops those with line breaks, tabs or nothing in them, and beyond 4,096
//! characters in all it cuts each to 256 (`k8s.io/apiserver/pkg/endpoints/filters/warning.go`).

use webservice_api::rules::Violation;

/// What all warnings of one answer may have together before they are cut.
const TOTAL: usize = 4096;
/// What one warning keeps when they are cut.
const EACH: usize = 256;

/// Warnings as the person reads them. Where they are too long together, each is cut, and those that still do not fit
/// are counted in the last one.
pub(crate) fn write(warnings: &[Violation]) -> Vec<String> {
    let mut lines: Vec<String> = warnings.iter().map(|warning| one_line(&warning.to_string())).collect();
    if length(&lines) > TOTAL {
        for line in &mut lines {
            cut(line, EACH);
        }
        drop_overflow(&mut lines);
    }
    lines
}

fn length(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count()).sum()
}

/// Control characters become spaces: a header cannot carry them.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

fn cut(line: &mut String, characters: usize) {
    if line.chars().count() > characters {
        let kept: String = line.chars().take(characters - 1).collect();
        *line = kept + "…";
    }
}

fn drop_overflow(lines: &mut Vec<String>) {
    if length(lines) > TOTAL {
        let dropped = lines.split_off(TOTAL / EACH - 1).len();
        lines.push(format!("and {dropped} more warnings"));
    }
}

#[cfg(test)]
mod tests {
    use webservice_api::rules::Cause;

    use super::*;

    fn warning(message: impl Into<String>) -> Violation {
        Violation {
            rule: "some-rule",
            field: "spec".to_owned(),
            message: message.into(),
            cause: Cause::Invalid,
        }
    }

    #[test]
    fn short_warnings_stay_as_they_are() {
        assert_eq!(write(&[warning("one"), warning("two")]), ["spec: one", "spec: two"]);
        assert_eq!(write(&[warning("x".repeat(4000))])[0].len(), 4006);
    }

    #[test]
    fn what_a_header_cannot_carry_becomes_a_space() {
        assert_eq!(write(&[warning("a\nb\tc\u{7f}d")]), ["spec: a b c d"]);
    }

    #[test]
    fn long_warnings_are_cut_between_characters() {
        let lines = write(&[warning("é".repeat(3000)), warning("é".repeat(3000))]);
        assert_eq!(lines.len(), 2);
        for line in lines {
            assert_eq!(line.chars().count(), EACH);
            assert!(line.ends_with('…'));
        }
    }

    #[test]
    fn a_warning_of_exactly_the_limit_is_not_cut() {
        let mut line = "x".repeat(EACH);
        cut(&mut line, EACH);
        assert_eq!(line, "x".repeat(EACH));
    }

    #[test]
    fn too_many_warnings_are_counted_in_the_last_one() {
        let lines = write(&vec![warning("x".repeat(300)); 40]);
        assert_eq!(lines.last().unwrap(), "and 25 more warnings");
        assert!(length(&lines) <= TOTAL);
    }
}
