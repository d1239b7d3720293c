//! A running server takes up what the kubelet puts into its mounted directory, and nothing worse than what it has.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use tempfile::TempDir;
use webservice_certs::{Ca, Leaf, ReadCounts, Reloader, ServedCertificate, Status, Validity};

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const NAME: &str = "webhook.test.svc";

fn hours(hours: i64) -> Validity {
    Validity::lasting(SignedDuration::from_hours(hours), NOW)
}

fn ca() -> Ca {
    Ca::create(hours(24 * 365)).unwrap()
}

fn leaf(ca: &Ca) -> Leaf {
    ca.issue(&[NAME], hours(24 * 30)).unwrap()
}

/// A directory as the kubelet lays it out: `tls.crt -> ..data/tls.crt`, `..data -> ..VERSION`.
struct Mount {
    directory: TempDir,
    version: u32,
}

impl Mount {
    fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), version: 0 }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn put(&mut self, leaf: &Leaf) {
        self.put_files(leaf.certificate_pem(), leaf.key_pem());
    }

    /// Writes the next version, swaps the link by a rename and removes the version before, as the kubelet does.
    fn put_files(&mut self, certificate: &str, key: &str) {
        let before = self.path().join(format!("..{}", self.version));
        self.version += 1;
        let name = format!("..{}", self.version);
        let version = self.path().join(&name);
        fs::create_dir(&version).unwrap();
        for (file, content) in [("tls.crt", certificate), ("tls.key", key)] {
            fs::write(version.join(file), content).unwrap();
            if self.version == 1 {
                symlink(format!("..data/{file}"), self.path().join(file)).unwrap();
            }
        }
        symlink(name, self.path().join("..data_tmp")).unwrap();
        fs::rename(self.path().join("..data_tmp"), self.path().join("..data")).unwrap();
        if self.version > 1 {
            fs::remove_dir_all(before).unwrap();
        }
    }
}

/// The certificate that a client is shown in a handshake, or the reason why there is none.
fn presented(certificate: &ServedCertificate, ca: &Ca) -> Result<CertificateDer<'static>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificate.clone()));
    let mut roots = RootCertStore::empty();
    roots.add(der(ca.certificate_pem()))?;
    let client = ClientConfig::builder_with_details(provider, Arc::new(FixedTime))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut server = ServerConnection::new(Arc::new(server))?;
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from(NAME).unwrap())?;
    while client.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(client.peer_certificates().unwrap()[0].clone().into_owned())
}

#[derive(Debug)]
struct FixedTime;

impl rustls::time_provider::TimeProvider for FixedTime {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        let seconds = u64::try_from(NOW.as_second()).unwrap();
        Some(rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[tokio::test]
async fn three_swaps_in_a_row_are_each_taken_up() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let mut reloader = Reloader::new(mount.path());
    for _ in 0..4 {
        let leaf = leaf(&ca);
        mount.put(&leaf);
        reloader.pass(NOW).await;
        assert_eq!(presented(&reloader.served(), &ca).unwrap(), der(leaf.certificate_pem()));
    }
    assert_eq!(reloader.served().counts(), ReadCounts { total: 4, errors: 0 });
}

#[tokio::test]
async fn a_server_without_files_waits_and_serves_once_they_are_there() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let mut reloader = Reloader::new(mount.path());
    reloader.pass(NOW).await;
    assert_eq!(reloader.served().status(), Status::NoPair);
    presented(&reloader.served(), &ca).unwrap_err();

    let leaf = leaf(&ca);
    mount.put(&leaf);
    reloader.pass(NOW).await;
    assert_eq!(reloader.served().status(), Status::Serving { not_after: leaf.validity().not_after });
    assert_eq!(presented(&reloader.served(), &ca).unwrap(), der(leaf.certificate_pem()));
}

#[tokio::test]
async fn a_directory_that_does_not_exist_is_waited_for() {
    let mut reloader = Reloader::new("/does/not/exist");
    reloader.pass(NOW).await;
    assert_eq!(reloader.served().status(), Status::NoPair);
    assert_eq!(reloader.served().counts(), ReadCounts { total: 1, errors: 1 });
}

#[tokio::test]
async fn a_broken_renewal_keeps_the_last_good_pair_until_it_is_repaired() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let (good, other, next) = (leaf(&ca), leaf(&ca), leaf(&ca));
    let mut reloader = Reloader::new(mount.path());
    mount.put(&good);
    reloader.pass(NOW).await;

    let broken = [
        ("", good.key_pem()),
        ("garbage", good.key_pem()),
        (&good.certificate_pem()[..300], good.key_pem()),
        (other.certificate_pem(), good.key_pem()),
        (good.certificate_pem(), ""),
    ];
    for (round, (certificate, key)) in (1..).zip(broken) {
        mount.put_files(certificate, key);
        reloader.pass(NOW).await;
        assert_eq!(presented(&reloader.served(), &ca).unwrap(), der(good.certificate_pem()));
        assert!(matches!(reloader.served().status(), Status::Serving { .. }));
        assert_eq!(reloader.served().counts().errors, round);
    }

    mount.put(&next);
    reloader.pass(NOW).await;
    assert_eq!(presented(&reloader.served(), &ca).unwrap(), der(next.certificate_pem()));
    assert_eq!(reloader.served().counts().errors, 5);
}

#[tokio::test]
async fn files_that_vanish_leave_the_last_good_pair_in_place() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let mut reloader = Reloader::new(mount.path());
    let leaf = leaf(&ca);
    mount.put(&leaf);
    reloader.pass(NOW).await;
    fs::remove_file(mount.path().join("..data")).unwrap();
    reloader.pass(NOW).await;
    assert_eq!(presented(&reloader.served(), &ca).unwrap(), der(leaf.certificate_pem()));
}

#[tokio::test]
async fn a_certificate_expires_while_it_is_served_and_is_replaced() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let mut reloader = Reloader::new(mount.path());
    let leaf = ca.issue(&[NAME], hours(1)).unwrap();
    let not_after = leaf.validity().not_after;
    mount.put(&leaf);
    reloader.pass(NOW).await;
    reloader.pass(not_after).await;
    assert_eq!(reloader.served().status(), Status::Serving { not_after });

    let later = not_after + SignedDuration::from_secs(1);
    reloader.pass(later).await;
    assert_eq!(reloader.served().status(), Status::Expired { not_after });

    mount.put(&ca.issue(&[NAME], hours(24)).unwrap());
    reloader.pass(later).await;
    assert!(matches!(reloader.served().status(), Status::Serving { .. }));
}

#[tokio::test]
async fn an_expired_certificate_never_replaces_a_valid_one() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let mut reloader = Reloader::new(mount.path());
    let (short, long) = (ca.issue(&[NAME], hours(1)).unwrap(), leaf(&ca));
    mount.put(&long);
    reloader.pass(NOW).await;
    mount.put(&short);
    reloader.pass(NOW + SignedDuration::from_hours(2)).await;
    assert_eq!(presented(&reloader.served(), &ca).unwrap(), der(long.certificate_pem()));
    assert_eq!(reloader.served().counts().errors, 1);
}

#[tokio::test]
async fn a_certificate_that_is_expired_at_the_start_is_reported_as_such() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let leaf = ca.issue(&[NAME], hours(1)).unwrap();
    mount.put(&leaf);
    let mut reloader = Reloader::new(mount.path());
    reloader.pass(NOW + SignedDuration::from_hours(2)).await;
    assert_eq!(reloader.served().status(), Status::Expired { not_after: leaf.validity().not_after });
}

#[tokio::test]
async fn a_certificate_from_the_future_is_served() {
    let (ca, mut mount) = (ca(), Mount::empty());
    mount.put(&leaf(&ca));
    let mut reloader = Reloader::new(mount.path());
    reloader.pass(NOW - SignedDuration::from_hours(1)).await;
    assert!(matches!(reloader.served().status(), Status::Serving { .. }));
}

#[tokio::test]
async fn the_loop_tells_its_watchers_without_being_asked() {
    let (ca, mut mount) = (ca(), Mount::empty());
    let reloader = Reloader::new(mount.path());
    let mut status = reloader.served().watch();
    let running = tokio::spawn(reloader.run(Duration::from_millis(10)));
    // The loop runs on the machine's clock.
    mount.put(&leaf_of_today(&ca));
    let serving = status.wait_for(|status| matches!(status, Status::Serving { .. }));
    tokio::time::timeout(Duration::from_secs(10), serving).await.unwrap().unwrap();
    running.abort();
}

fn leaf_of_today(ca: &Ca) -> Leaf {
    let life = Validity::lasting(SignedDuration::from_hours(1), Timestamp::now());
    ca.issue(&[NAME], life).unwrap()
}
