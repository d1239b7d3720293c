//! The binary: what it says, how it exits.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};
use webservice_ops::shutdown::FORCED_EXIT_CODE;

use crate::clients::{is_served, with_certificate};
use crate::support::{Client, MUTATE, Mount, ca, client_config, creation, leaf, replace, soon, webservice};

const BINARY: &str = env!("CARGO_BIN_EXE_webservice-webhook");

fn command(cert_dir: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    configure(&mut command, cert_dir).args(flags);
    command
}

fn configure<'c>(command: &'c mut Command, cert_dir: &Path) -> &'c mut Command {
    command
        .args(["--https-address=127.0.0.1:0", "--probe-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"])
        .args(["--log-format=json", "--cert-interval=20ms", "--shutdown-lame-duck=0s"])
        .arg("--cert-dir")
        .arg(cert_dir)
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
}

/// A started process and the lines of its log.
struct Process {
    child: Child,
    log: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, log }
    }

    /// The next log line with this message.
    async fn await_line(&mut self, message: &str) -> Value {
        let found = async {
            loop {
                let line = self.log.next_line().await.unwrap().expect("the log goes on");
                let line: Value = serde_json::from_str(&line).expect("every line is JSON");
                if line["message"] == message {
                    return line;
                }
            }
        };
        soon(message, found).await
    }

    async fn signal(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
    }

    async fn exit_code(&mut self) -> Option<i32> {
        soon("the exit", self.child.wait()).await.unwrap().code()
    }
}

/// What a process that does not start says on standard error.
async fn failure(mut command: Command) -> String {
    let output = soon("the exit", command.output()).await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn address(line: &Value, field: &str) -> SocketAddr {
    line[field].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn it_says_where_it_listens_serves_and_exits_cleanly_on_sigterm() {
    let (ca, mut mount) = (ca(), Mount::empty());
    mount.put(&leaf(&ca));
    let mut process = Process::start(command(mount.path(), &[]));
    let listening = process.await_line("listening").await;
    for field in ["https", "probes", "metrics"] {
        assert_ne!(address(&listening, field).port(), 0);
        TcpStream::connect(address(&listening, field)).await.unwrap();
    }
    let mut client = Client::connect(address(&listening, "https"), client_config(&ca)).await.unwrap();
    let review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    assert_eq!(client.review(MUTATE, &review).await["allowed"], true);

    process.signal("-TERM").await;
    process.await_line("stopped").await;
    assert_eq!(process.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_denial_is_one_line_with_its_rules_and_a_permission_is_none() {
    let (ca, mut mount) = (ca(), Mount::empty());
    mount.put(&leaf(&ca));
    let mut process = Process::start(command(mount.path(), &[]));
    let https = address(&process.await_line("listening").await, "https");
    let mut client = Client::connect(https, client_config(&ca)).await.unwrap();
    client.review(crate::support::VALIDATE, &creation(&webservice(&json!({"image": "nginx:1.27"})))).await;
    client.review(crate::support::VALIDATE, &creation(&webservice(&json!({"tier": "X_"})))).await;
    drop(client);
    let line = soon("a line", process.log.next_line()).await.unwrap().unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["message"], &line["rules"]), (&json!("denied"), &json!("image-required,tier-label")));
    assert_eq!((&line["namespace"], &line["name"]), (&json!("shop"), &json!("checkout")));
}

#[tokio::test]
async fn a_client_that_is_refused_is_told_of_in_the_log() {
    let (ca, clients, mut mount) = (ca(), ca(), Mount::empty());
    mount.put(&leaf(&ca));
    let file = mount.path().join("clients.crt");
    replace(&file, clients.certificate_pem());
    let flags = ["--client-name=kube-apiserver", "--client-ca", file.to_str().unwrap()];
    let mut process = Process::start(command(mount.path(), &flags));
    let https = address(&process.await_line("listening").await, "https");

    assert!(!is_served(https, client_config(&ca)).await);
    process.await_line("refused a client without a certificate").await;

    assert!(!is_served(https, with_certificate(&ca, &clients, "somebody")).await);
    let line = process.await_line("refused a client's certificate").await;
    let told = ["names", "expected"].map(|field| line[field].as_str().unwrap());
    assert_eq!(told, [r#"["somebody"]"#, r#"["kube-apiserver"]"#]);
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_is_told_of_in_the_log() {
    let mount = Mount::empty();
    let file = mount.path().join("policy.yaml");
    replace(&file, "maxReplicas: {overall: -1}");
    let mut process = Process::start(command(mount.path(), &["--policy", file.to_str().unwrap()]));
    let line = process.await_line("waiting for a usable policy").await;
    let problem = line["problem"].as_str().unwrap();
    assert!(problem.contains("maxReplicas.overall is -1; write a whole number"), "{line}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_no_review_and_no_stop() {
    let (ca, mut mount) = (ca(), Mount::empty());
    mount.put(&leaf(&ca));
    let mut process = Process::start(command(mount.path(), &[]));
    let https = address(&process.await_line("listening").await, "https");
    let mut client = Client::connect(https, client_config(&ca)).await.unwrap();
    // Each denial is a line, and a pipe takes 64 KiB.
    let denied = creation(&webservice(&json!({"tier": "X_"})));
    for _ in 0..1000 {
        assert_eq!(client.review(crate::support::VALIDATE, &denied).await["allowed"], false);
    }
    process.signal("-TERM").await;
    assert_eq!(process.exit_code().await, Some(0));
}

#[tokio::test]
async fn without_a_certificate_it_says_what_it_waits_for_and_stops_when_told() {
    let mount = Mount::empty();
    let mut process = Process::start(command(mount.path(), &[]));
    let waiting = process.await_line("waiting for a certificate").await;
    assert!(waiting["problem"].as_str().unwrap().contains("tls.crt"), "{waiting}");
    process.await_line("listening").await;
    process.signal("-INT").await;
    assert_eq!(process.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mount = Mount::empty();
    let mut process = Process::start(command(mount.path(), &["--shutdown-lame-duck=1h"]));
    process.await_line("listening").await;
    process.signal("-TERM").await;
    process.await_line("shutting down: not ready any more, still serving").await;
    process.signal("-TERM").await;
    assert_eq!(process.exit_code().await, Some(FORCED_EXIT_CODE));
}

#[tokio::test]
async fn a_port_in_use_is_one_clear_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let mount = Mount::empty();
    let error = failure(command(mount.path(), &["--probe-address", &address.to_string()])).await;
    assert_eq!(
        error,
        format!(
            "webservice-webhook: failed to listen on {address} for probes: Address already in use (os error 98); \
             stop the other process or choose another port\n"
        )
    );
}

#[tokio::test]
async fn a_log_filter_that_cannot_be_read_is_one_clear_sentence() {
    let mount = Mount::empty();
    let error = failure(command(mount.path(), &["--log-level=webhook=loud"])).await;
    assert!(error.contains("--log-level") && error.lines().count() == 1, "{error}");
}

#[tokio::test]
async fn a_shortage_of_file_descriptors_passes() {
    let (ca, mut mount) = (ca(), Mount::empty());
    mount.put(&leaf(&ca));
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"ulimit -n 40; exec "$0" "$@""#, BINARY]);
    configure(&mut shell, mount.path());
    let mut process = Process::start(shell);
    let https = address(&process.await_line("listening").await, "https");
    let mut flood = Vec::new();
    for _ in 0..60 {
        flood.push(TcpStream::connect(https).await.unwrap());
    }
    process.await_line("failed to accept connections; trying on").await;
    drop(flood);
    let mut client = soon("a connection", Client::connect(https, client_config(&ca))).await.unwrap();
    let review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    assert_eq!(client.review(MUTATE, &review).await["allowed"], true);
}
