//! Small files that other processes read at the same time: written beside their place and renamed into it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a JSON file; none when it does not exist.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(|| {
            format!("failed to read {}: it is damaged or of another version", path.display())
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

/// Writes a JSON file that appears at once or not at all.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write(path, serde_json::to_string_pretty(value)?.as_bytes())
}

/// Writes a file that appears at once or not at all, readable by its owner only: most of ours are keys or name them.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_added_extension(format!("{}.tmp", std::process::id()));
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        fs::rename(&temporary, path)
    };
    write().with_context(|| format!("failed to write {}", path.display()))
}
