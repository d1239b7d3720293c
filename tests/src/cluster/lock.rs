//! Locks between processes. The kernel releases them when their holder dies, so none is ever stale.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// An exclusive lock on a file, which disappears with it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock, or none when somebody else holds it.
    pub(super) fn try_acquire(path: &Path) -> Result<Option<Self>> {
        let failed = || format!("failed to lock {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        let file = File::create(path).with_context(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
        }
        // The last holder may have removed the file between our opening and locking it: then the lock is on nothing.
        let current = fs::metadata(path).is_ok_and(|on_disk| {
            file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (on_disk.dev(), on_disk.ino()))
        });
        Ok(current.then(|| Self { path: path.to_owned(), _file: file }))
    }

    /// Takes the lock within `deadline`. Blocks.
    pub(super) fn acquire(path: &Path, deadline: Duration) -> Result<Self> {
        let started = Instant::now();
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            if started.elapsed() >= deadline {
                return give_up(path, deadline);
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Takes the lock within `deadline`, without blocking other tasks.
    pub(super) async fn wait(path: &Path, deadline: Duration) -> Result<Self> {
        let started = Instant::now();
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            if started.elapsed() >= deadline {
                return give_up(path, deadline);
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.path);
    }
}

fn give_up<T>(path: &Path, deadline: Duration) -> Result<T> {
    bail!(
        "failed to lock {} within {} s: another command is at work there, wait for it or end it",
        path.display(),
        deadline.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_at_a_time_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dev.lock");
        let first = Lock::try_acquire(&path).unwrap().unwrap();
        assert!(Lock::try_acquire(&path).unwrap().is_none());
        drop(first);
        assert!(!path.exists());
        assert!(Lock::try_acquire(&path).unwrap().is_some());
    }

    #[test]
    fn waiting_for_a_lock_ends_with_a_sentence() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dev.lock");
        let _held = Lock::try_acquire(&path).unwrap().unwrap();
        let error = Lock::acquire(&path, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("another command is at work there"), "{error}");
    }

    #[test]
    fn many_threads_never_hold_the_same_lock_together() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dev.lock");
        let holders = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if let Some(lock) = Lock::try_acquire(&path).unwrap() {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            holders.fetch_sub(1, Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
    }
}
