//! Digests of directories.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Adds the names and contents of all files below a directory whose path in it `is_part`.
pub fn hash(hash: &mut Sha256, directory: &Path, is_part: impl Fn(&Path) -> bool) -> Result<()> {
    for path in files_below(directory)? {
        let name = path.strip_prefix(directory).unwrap_or(&path);
        if is_part(name) {
            let content = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
            hash.update(name.as_os_str().as_encoded_bytes());
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
    }
    Ok(())
}

/// All files below a directory, sorted.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries =
            fs::read_dir(&directory).with_context(|| format!("failed to list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}
