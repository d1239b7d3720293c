//! The two files of a mounted TLS Secret, read from one version of the mount.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tokio::fs;
use tokio::io::AsyncReadExt;

/// File name of the certificate chain, as in a Secret of type `kubernetes.io/tls`.
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// File name of the private key, as in a Secret of type `kubernetes.io/tls`.
pub const KEY_FILE: &str = "tls.key";

/// The link that the kubelet swaps when a mounted Secret changes: the files are links to `..data/NAME`, and `..data`
/// is a link to the directory of the present version.
const VERSION_LINK: &str = "..data";

/// A Secret is at most 1 MiB; whatever is longer is not one.
const MAX_BYTES: u64 = 1024 * 1024;

/// Content of both files, PEM, unchecked.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// `tls.crt`.
    pub certificate: Vec<u8>,
    /// `tls.key`.
    pub key: Vec<u8>,
}

/// Why the files could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A file is not there, or not yet.
    #[error("failed to find {}; mount a Secret with tls.crt and tls.key there", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file is there and cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file is longer than a Secret can be.
    #[error("failed to read {}: it is longer than 1 MiB", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

impl Snapshot {
    /// Reads both files of `directory`. Where the kubelet manages it, its version link is followed once, so that both
    /// come from the same version even if the link is swapped meanwhile.
    pub async fn read(directory: &Path) -> Result<Self, SnapshotError> {
        let version = present_version(directory).await;
        match Self::read_below(&version).await {
            // The kubelet removes a version right after the swap, maybe between our two steps: the next one is there.
            Err(SnapshotError::Missing { .. }) if present_version(directory).await != version => {
                Self::read_below(&present_version(directory).await).await
            }
            answer => answer,
        }
    }

    async fn read_below(version: &Path) -> Result<Self, SnapshotError> {
        Ok(Self {
            certificate: read_file(version.join(CERTIFICATE_FILE)).await?,
            key: read_file(version.join(KEY_FILE)).await?,
        })
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("certificate_bytes", &self.certificate.len()).finish_non_exhaustive()
    }
}

/// The directory behind the version link, or the directory itself where there is no such link.
async fn present_version(directory: &Path) -> PathBuf {
    fs::canonicalize(directory.join(VERSION_LINK)).await.unwrap_or_else(|_| directory.to_owned())
}

async fn read_file(path: PathBuf) -> Result<Vec<u8>, SnapshotError> {
    let mut content = Vec::new();
    let read = async { fs::File::open(&path).await?.take(MAX_BYTES + 1).read_to_end(&mut content).await };
    match read.await {
        Ok(length) if length as u64 > MAX_BYTES => Err(SnapshotError::TooLong { path }),
        Ok(_) => Ok(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SnapshotError::Missing { path }),
        Err(source) => Err(SnapshotError::Unreadable { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[tokio::test]
    async fn both_files_of_a_plain_directory_are_read() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(CERTIFICATE_FILE), "certificate").unwrap();
        std::fs::write(directory.path().join(KEY_FILE), "key").unwrap();
        let snapshot = Snapshot::read(directory.path()).await.unwrap();
        assert_eq!(snapshot, Snapshot { certificate: b"certificate".to_vec(), key: b"key".to_vec() });
    }

    #[tokio::test]
    async fn the_version_link_wins_over_files_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(CERTIFICATE_FILE), "stale").unwrap();
        std::fs::write(directory.path().join(KEY_FILE), "stale").unwrap();
        let version = directory.path().join("..1");
        std::fs::create_dir(&version).unwrap();
        std::fs::write(version.join(CERTIFICATE_FILE), "certificate").unwrap();
        std::fs::write(version.join(KEY_FILE), "key").unwrap();
        symlink("..1", directory.path().join(VERSION_LINK)).unwrap();
        assert_eq!(Snapshot::read(directory.path()).await.unwrap().certificate, b"certificate");
    }

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(CERTIFICATE_FILE), "certificate").unwrap();
        let error = Snapshot::read(directory.path()).await.unwrap_err();
        assert!(matches!(&error, SnapshotError::Missing { path } if path.ends_with(KEY_FILE)), "{error}");
    }

    #[tokio::test]
    async fn a_directory_in_a_files_place_is_an_error_and_not_a_hang() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(CERTIFICATE_FILE)).unwrap();
        let error = Snapshot::read(directory.path()).await.unwrap_err();
        assert!(matches!(error, SnapshotError::Unreadable { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_is_no_secret_is_not_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(directory.path().join(CERTIFICATE_FILE)).unwrap();
        file.set_len(MAX_BYTES + 1).unwrap();
        let error = Snapshot::read(directory.path()).await.unwrap_err();
        assert!(matches!(error, SnapshotError::TooLong { .. }), "{error}");
    }

    #[test]
    fn the_key_is_not_printed_by_debug() {
        let snapshot = Snapshot { certificate: vec![], key: b"secret".to_vec() };
        assert_eq!(format!("{snapshot:?}"), "Snapshot { certificate_bytes: 0, .. }");
    }
}
