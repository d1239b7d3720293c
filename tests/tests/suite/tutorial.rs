//! `docs/tutorial.md` is right: its commands run as they stand there, in one shell, and print what it says they print.

use std::fs;
use std::path::Path;
use std::time::Duration;

use webservice_tests::bed::{TestCluster, Tool, binary};

/// All its steps, on a busy machine.
const LONGEST: Duration = Duration::from_mins(15);

/// A fenced block of a Markdown file.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    language: String,
    text: String,
}

fn blocks(file: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(file);
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in fs::read_to_string(path).unwrap().lines() {
        open = match (open, line.strip_prefix("```")) {
            (None, Some(language)) => Some(Block { language: language.into(), text: String::new() }),
            (Some(block), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some(mut block), None) => {
                block.text.extend([line, "\n"]);
                Some(block)
            }
            (None, None) => None,
        }
    }
    blocks
}

fn texts(blocks: &[Block], language: &str) -> Vec<String> {
    blocks.iter().filter(|block| block.language == language).map(|block| block.text.clone()).collect()
}

/// One script of all blocks. Each writes what it prints to a file of its own, and ends the script when it fails.
fn script(exports: &str, blocks: &[String], directory: &Path) -> String {
    // The cluster is the test's own and not the one that the commands would take by themselves.
    let cargo = r#"cargo() { test "$1" = xtask; "$XTASK" "${@:2}" --name "$CLUSTER"; }"#;
    // A person sees that a machine is busy, and waits.
    let patient = blocks.iter().map(|block| block.replace("--timeout=30s", "--timeout=3m"));
    let commands = patient.enumerate();
    let commands =
        commands.map(|(number, block)| format!("{{\n{block}}} > {}/{number} 2>&1\n", directory.display()));
    format!("set -e\n{exports}\n{cargo}\n{}", commands.collect::<String>())
}

/// Whether `line` is what was expected, in which an ellipsis stands for anything.
fn matches(line: &str, expected: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else { return line == expected };
    let Some(line) = line.strip_prefix(start) else { return false };
    line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| matches(&line[at..], rest))
}

/// Finds each expected line in what was printed, one after the other.
fn assert_printed(printed: &str, expected: &str, command: &str) {
    let mut lines = printed.lines();
    for line in expected.lines() {
        assert!(
            lines.any(|printed| matches(printed.trim_end(), line)),
            "missing or not in its place: {line}\n--- of what is printed by\n{command}--- which is\n{printed}"
        );
    }
}

#[tokio::test]
async fn every_command_of_the_tutorial_does_what_it_says() {
    let blocks = blocks("tutorial.md");
    assert_eq!(
        texts(&blocks, "console"),
        ["$ cargo xtask up --without-controller\n", "$ cargo xtask down\n"]
    );
    let cluster = TestCluster::private().await;
    let name = cluster.name().to_string();
    let up = Tool::binary("xtask").args(["up", "--no-build", "--without-controller", "--name", &name]);
    let started = up.within(LONGEST).await.succeeds();
    let exports: Vec<_> = started.stdout.lines().filter(|line| line.trim().starts_with("export ")).collect();

    let directory = tempfile::tempdir().unwrap();
    let commands = texts(&blocks, "sh");
    let script = script(&exports.join("\n"), &commands, directory.path());
    let shell = Tool::new(std::process::Command::new("bash")).args(["-c", &script]);
    let ran = shell.env("XTASK", binary("xtask")).env("CLUSTER", &name).within(LONGEST).await;

    let printed =
        |number: usize| fs::read_to_string(directory.path().join(number.to_string())).unwrap_or_default();
    if ran.code != Some(0) {
        let last = fs::read_dir(directory.path()).unwrap().count() - 1;
        panic!("this command fails:\n{}--- with\n{}{}", commands[last], printed(last), ran.stderr);
    }
    for (number, pair) in blocks.windows(2).filter(|pair| pair[0].language == "sh").enumerate() {
        if pair[1].language == "text" {
            assert_printed(&printed(number), &pair[1].text, &pair[0].text);
        }
    }
}

#[test]
fn the_korean_tutorial_has_the_same_commands_and_outputs() {
    let (english, korean) = (blocks("tutorial.md"), blocks("tutorial.ko.md"));
    assert!(texts(&english, "sh").len() > 20);
    for language in ["console", "sh", "text"] {
        assert_eq!(texts(&english, language), texts(&korean, language));
    }
}

#[test]
fn an_ellipsis_stands_for_anything_and_nothing_else_does() {
    assert!(matches("deleted at 12:00, held by x", "deleted at …, held by x"));
    assert!(matches("  a: b exceeded quota: c, and more", "  a: …quota: c…"));
    assert!(!matches("deleted at 12:00, held by x and y", "deleted at …, held by x"));
    assert!(!matches("noop and more", "noop"));
}
