//! The measured programs as processes, on a core of their own.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::sleep;
use webservice_certs::{CERTIFICATE_FILE, Ca, KEY_FILE, Validity};

use super::client::Target;
use super::cores;
use super::machine::{self, Memory};

/// In which time a server must listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether it does.
const PAUSE: Duration = Duration::from_millis(5);

/// What servers are started from: the programs, and a certificate that all of them serve with (ECDSA P-256, issued by an
/// authority that is not sent along).
pub struct Servers {
    webhook: PathBuf,
    directory: TempDir,
    ca: Ca,
}

impl Servers {
    /// For this build of the webhook.
    pub fn new(webhook: PathBuf) -> Result<Self> {
        let directory = TempDir::with_prefix("webservice-bench-").context("failed to make a directory")?;
        let validity = Validity::lasting(SignedDuration::from_hours(24), Timestamp::now());
        let ca = Ca::create(validity)?;
        let leaf = ca.issue(&["127.0.0.1"], validity)?;
        fs::write(directory.path().join(CERTIFICATE_FILE), leaf.certificate_pem())?;
        fs::write(directory.path().join(KEY_FILE), leaf.key_pem())?;
        Ok(Self { webhook, directory, ca })
    }

    /// Starts a webhook with the settings that it has in a cluster.
    pub async fn webhook(&self) -> Result<Server> {
        let any = "127.0.0.1:0".parse()?;
        let mut command = guarded(&self.webhook);
        command.args(self.webhook_arguments(any));
        self.start(command, "webhook").await
    }

    /// Starts the echo server, which is this same program.
    pub async fn echo(&self) -> Result<Server> {
        let this = std::env::current_exe().context("failed to find this program")?;
        let mut command = guarded(&this);
        command.arg("echo").arg(self.directory.path());
        self.start(command, "echo").await
    }

    /// How long a webhook takes from its start until `/readyz` says 200.
    pub async fn time_to_ready(&self) -> Result<Duration> {
        let probes = free_address()?;
        let mut command = Command::new(&self.webhook);
        command.args(self.webhook_arguments(probes)).stdout(Stdio::null());
        cores::on(cores::SERVER, || time_to_ready(&mut command, probes))?.await
    }

    fn webhook_arguments(&self, probes: SocketAddr) -> [String; 6] {
        [
            format!("--cert-dir={}", self.directory.path().display()),
            "--https-address=127.0.0.1:0".into(),
            format!("--probe-address={probes}"),
            "--metrics-address=127.0.0.1:0".into(),
            "--log-format=json".into(),
            "--log-level=info".into(),
        ]
    }

    async fn start(&self, mut command: Command, name: &str) -> Result<Server> {
        let log = self.directory.path().join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output);
        let child = cores::on(cores::SERVER, || command.spawn())?;
        let mut running =
            Running(child.context("failed to start setpriv (of the Debian package util-linux)")?);
        let address = running.listening(&log).await.with_context(|| format!("failed to start {name}"))?;
        Ok(Server { running, target: Target::new(address, self.ca.certificate_pem())? })
    }
}

/// How long a program takes from its start, which is now, until `/readyz` at `probes` says 200. Then it is killed.
pub(super) fn time_to_ready(
    command: &mut Command,
    probes: SocketAddr,
) -> impl Future<Output = Result<Duration>> + use<> {
    let (began, child) = (Instant::now(), command.spawn().map(Running));
    let program = command.get_program().to_owned();
    async move {
        let _running = child.with_context(|| format!("failed to start {}", program.display()))?;
        while !is_ready(probes) {
            if began.elapsed() > PATIENCE {
                bail!("failed to become ready within {PATIENCE:?}");
            }
            sleep(Duration::from_micros(100)).await;
        }
        Ok(began.elapsed())
    }
}

/// A command that the kernel ends when this process ends in any way.
fn guarded(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// An address that nobody listens on.
pub(super) fn free_address() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("failed to find a free port")?;
    Ok(listener.local_addr()?)
}

/// Asks once, blocking: between two questions there should be nothing but a short pause.
fn is_ready(probes: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(probes)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(status == *b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}

/// A server that listens. It is killed when the value goes.
pub struct Server {
    running: Running,
    target: Target,
}

impl Server {
    /// How it is called.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// CPU time that it has used so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        machine::cpu_time(self.running.0.id())
    }

    /// Its memory.
    pub fn memory(&self) -> Result<Memory> {
        machine::memory(self.running.0.id())
    }
}

struct Running(Child);

impl Running {
    /// Waits until its log says where it listens for HTTPS.
    async fn listening(&mut self, log: &Path) -> Result<SocketAddr> {
        let began = Instant::now();
        loop {
            let text = fs::read_to_string(log).unwrap_or_default();
            let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(line) = lines.find(|line| line["message"] == "listening") {
                return line["https"]
                    .as_str()
                    .unwrap_or_default()
                    .parse()
                    .context("failed to read its address");
            }
            if let Some(status) = self.0.try_wait()? {
                bail!("it has ended ({status}): {text}");
            }
            if began.elapsed() > PATIENCE {
                bail!("it does not listen after {PATIENCE:?}: {text}");
            }
            sleep(PAUSE).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails where it has ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
