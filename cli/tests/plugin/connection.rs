use std::net::TcpListener;
use std::path::Path;

use crate::{Run, finish, plugin, run};

/// A kubeconfig with one context, `here`.
fn kubeconfig(directory: &Path, server: &str) -> String {
    let path = directory.join("kubeconfig");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: here, \
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn assert_one_sentence(run: &Run) {
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.starts_with("error: failed to ") && run.stderr.lines().count() == 1, "{}", run.stderr);
}

#[test]
fn without_a_kubeconfig_the_places_are_named_where_one_was_looked_for() {
    let run = run(&["plan", "checkout"]);
    assert_one_sentence(&run);
    assert!(
        run.stderr.contains("/nonexistent/.kube/config") && run.stderr.contains("--kubeconfig"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_kubeconfig_that_is_none_is_named_with_its_fault() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken");
    std::fs::write(&path, "clusters: [\n").unwrap();
    let run = finish(plugin(&["plan", "checkout"]).env("KUBECONFIG", &path), "");
    assert_one_sentence(&run);
    assert!(run.stderr.contains(path.to_str().unwrap()) && run.stderr.contains("line "), "{}", run.stderr);
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let run = run(&["observe", "checkout", "--kubeconfig", path]);
    assert_one_sentence(&run);
    assert!(run.stderr.contains(path) && run.stderr.contains("directory"), "{}", run.stderr);
}

#[test]
fn a_file_of_the_list_that_does_not_exist_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let there = kubeconfig(directory.path(), "https://127.0.0.1:1");
    let list = format!("/nonexistent/a:{there}");
    let run = finish(plugin(&["plan", "checkout"]).env("KUBECONFIG", list), "");
    assert!(run.stderr.contains("https://127.0.0.1:1"), "{}", run.stderr);
}

#[test]
fn a_context_that_does_not_exist_is_told_with_those_that_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = kubeconfig(directory.path(), "https://127.0.0.1:1");
    let run = run(&["explain", "checkout", "--kubeconfig", &path, "--context", "there"]);
    assert_one_sentence(&run);
    assert!(run.stderr.contains(r#""there""#) && run.stderr.contains("here"), "{}", run.stderr);
}

#[test]
fn a_server_that_refuses_the_connection_is_named() {
    let directory = tempfile::tempdir().unwrap();
    // Bound, then dropped: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = format!("https://{address}");
    let run = run(&["reconcile", "--all", "--kubeconfig", &kubeconfig(directory.path(), &server)]);
    assert_one_sentence(&run);
    assert!(run.stderr.contains(&server) && run.stderr.contains("Connection refused"), "{}", run.stderr);
}

#[test]
fn a_server_that_accepts_and_never_answers_does_not_hold_the_plugin_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let run = run(&["plan", "--all", "--kubeconfig", &kubeconfig(directory.path(), &server)]);
    assert_one_sentence(&run);
    assert!(run.stderr.contains(&server), "{}", run.stderr);
}
