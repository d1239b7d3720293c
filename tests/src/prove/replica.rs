//! The shipped webhook as one of several replicas, and the certificate that is mounted into it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use webservice_certs::{CERTIFICATE_FILE, KEY_FILE, Leaf};

use crate::bed::{Process, Webhook, address, eventually, get};

/// A mounted Secret as the kubelet lays it out and updates it: files are links into `..data`, which is a link to a
/// directory of the Secret's version. An update writes a new directory, swaps the link, and removes the old one.
pub struct Mount {
    directory: TempDir,
    version: u32,
}

impl Mount {
    /// With this certificate.
    pub fn of(leaf: &Leaf) -> Result<Self> {
        let mut mount = Self::empty()?;
        mount.put(leaf)?;
        Ok(mount)
    }

    /// Of a Secret that does not exist yet.
    pub fn empty() -> Result<Self> {
        let directory = TempDir::with_prefix("webservice-proof-").context("failed to make a directory")?;
        for file in [CERTIFICATE_FILE, KEY_FILE] {
            symlink(Path::new("..data").join(file), directory.path().join(file))?;
        }
        Ok(Self { directory, version: 0 })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Updates it to another certificate.
    pub fn put(&mut self, leaf: &Leaf) -> Result<()> {
        self.put_files(leaf.certificate_pem().as_bytes(), leaf.key_pem().as_bytes())
    }

    /// Updates it to these contents of the two files.
    pub fn put_files(&mut self, certificate: &[u8], key: &[u8]) -> Result<()> {
        let version = |number| format!("..{number}");
        self.version += 1;
        let next = self.path().join(version(self.version));
        fs::create_dir(&next)?;
        fs::write(next.join(CERTIFICATE_FILE), certificate)?;
        fs::write(next.join(KEY_FILE), key)?;
        let link = self.path().join("..data_tmp");
        symlink(version(self.version), &link)?;
        fs::rename(&link, self.path().join("..data"))?;
        if self.version > 1 {
            fs::remove_dir_all(self.path().join(version(self.version - 1)))?;
        }
        Ok(())
    }
}

/// A running webhook that is ready. It is killed when the value goes.
pub struct Replica {
    process: Process,
    https: SocketAddr,
    _log: TempDir,
}

impl Replica {
    /// Starts the shipped binary with what is mounted and these flags, and waits until it is ready.
    pub async fn start(mount: &Mount, flags: &[&str]) -> Result<Self> {
        let log = TempDir::with_prefix("webservice-proof-").context("failed to make a directory")?;
        let flags = flags.iter().map(ToString::to_string);
        let arguments = Webhook::on_loopback(mount.path()).into_iter().chain(flags);
        let process = Process::start("webhook", "webservice-webhook", arguments, log.path());
        let line = process.listening().await;
        let probes = address(&line, "probes");
        eventually("the webhook is ready", async || match get(probes, "/readyz").await {
            Ok((200, _)) => Ok(()),
            answer => Err(format!("{answer:?}")),
        })
        .await;
        Ok(Self { https: address(&line, "https"), process, _log: log })
    }

    /// Where it takes reviews.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.https
    }

    /// Tells it to stop, as a kubelet does.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Waits until it has ended, which must be with exit code 0 and without having dropped anybody.
    pub async fn ended(&self) -> Result<()> {
        let status = self.process.ended().await;
        ensure!(status.success(), "a webhook ended with {status}: {}", self.process.output());
        Ok(())
    }
}
