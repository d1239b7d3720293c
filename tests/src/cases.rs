//! `tests/cases.md` names tests: they must exist.

use std::fs;

use crate::cargo::root;

const CASES: usize = 95;

/// The rows of all tables: number and place.
fn rows(text: &str) -> Vec<(usize, &str)> {
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<(usize, &str)> {
    let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.splitn(3, " | ");
    let number = cells.next()?.parse().ok()?;
    Some((number, cells.nth(1)?))
}

/// The tests that a place names: file and function.
fn tests(place: &str) -> Vec<(&str, &str)> {
    place.split('`').filter_map(|text| text.split_once(".rs::")).collect()
}

#[test]
fn every_case_has_a_row_and_every_test_in_it_exists() {
    let text = fs::read_to_string(root().join("tests/cases.md")).unwrap();
    let rows = rows(&text);
    let numbers: Vec<_> = rows.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=CASES).collect::<Vec<_>>());
    for (number, place) in rows {
        let tests = tests(place);
        assert!(
            !tests.is_empty() || place.contains("open: "),
            "case {number} is covered by nothing: {place}"
        );
        for (file, name) in tests {
            let source = fs::read_to_string(root().join(format!("{file}.rs"))).unwrap_or_default();
            assert!(source.contains(&format!("fn {name}(")), "case {number}: there is no {file}.rs::{name}");
        }
    }
}
