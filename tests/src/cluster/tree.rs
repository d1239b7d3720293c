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

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(directory: &Path) -> Vec<u8> {
        let mut sha = Sha256::new();
        hash(&mut sha, directory, |path| path.starts_with("part")).unwrap();
        sha.finalize().to_vec()
    }

    #[test]
    fn a_digest_changes_with_what_is_part_of_it_and_with_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| fs::write(directory.path().join(name), content).unwrap();
        fs::create_dir(directory.path().join("part")).unwrap();
        write("part/a", "1");
        let first = digest(directory.path());
        write("other", "1");
        assert_eq!(digest(directory.path()), first);
        write("part/a", "2");
        let second = digest(directory.path());
        assert_ne!(second, first);
        fs::rename(directory.path().join("part/a"), directory.path().join("part/b")).unwrap();
        assert_ne!(digest(directory.path()), second);
    }
}
