//! A value that stands in a file which may change at any time, such as that of a mounted ConfigMap.
//!
//! The file is read again on a short interval and compared by content. Watching it would see nothing: the kubelet swaps a
//! link above it. What cannot be used never replaces what can.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use prometheus_client::metrics::counter::Counter;
use tokio::io::AsyncReadExt;
use tokio::time::MissedTickBehavior;

/// A ConfigMap or Secret is at most 1 MiB; whatever is longer is not one.
const MAX_BYTES: u64 = 1024 * 1024;

/// The last good value. Clones are handles to the same.
pub struct Latest<T>(Arc<Shared<T>>);

struct Shared<T> {
    value: ArcSwapOption<T>,
    problem: Mutex<Option<String>>,
}

impl<T> Latest<T> {
    fn empty() -> Self {
        Self(Arc::new(Shared { value: ArcSwapOption::empty(), problem: Mutex::new(None) }))
    }

    /// A value that stands in no file and never changes.
    #[must_use]
    pub fn fixed(value: T) -> Self {
        let latest = Self::empty();
        latest.0.value.store(Some(Arc::new(value)));
        latest
    }

    /// The last good value; none before there was one.
    #[must_use]
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.value.load_full()
    }

    /// Why there is no value yet, for a probe.
    ///
    /// # Errors
    /// There is none yet.
    pub fn check(&self) -> Result<(), String> {
        match self.0.value.load().as_ref() {
            Some(_) => Ok(()),
            None => Err(self.problem().unwrap_or_else(|| "it has not been read yet".to_owned())),
        }
    }

    fn problem(&self) -> Option<String> {
        self.0.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the present problem, and tells whether it is another than before: each is logged once, not every second.
    fn set_problem(&self, problem: Option<&str>) -> bool {
        let mut present = self.0.problem.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = present.as_deref() != problem;
        *present = problem.map(ToOwned::to_owned);
        is_new
    }
}

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Latest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latest").field("problem", &self.problem()).finish_non_exhaustive()
    }
}

/// From the bytes of a file to a value; the error is a sentence with a remedy.
type Parse<T> = fn(&[u8]) -> Result<T, String>;

/// Counts the reads of a file.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// All of them.
    pub total: Counter,
    /// Those that gave nothing usable.
    pub errors: Counter,
}

/// Reads a file again and again.
#[derive(Debug)]
pub struct FileReader<T> {
    what: &'static str,
    path: PathBuf,
    parse: Parse<T>,
    reads: Reads,
    latest: Latest<T>,
    content: Option<Vec<u8>>,
}

impl<T> FileReader<T> {
    /// A reader of `path`, which need not exist yet. Nothing is read before the first [`Self::pass`]. `what` names the
    /// value in the log.
    pub fn new(what: &'static str, path: impl Into<PathBuf>, parse: Parse<T>, reads: Reads) -> Self {
        Self { what, path: path.into(), parse, reads, latest: Latest::empty(), content: None }
    }

    /// A handle to what was read.
    #[must_use]
    pub fn latest(&self) -> Latest<T> {
        self.latest.clone()
    }

    /// Makes a pass now and then one per `interval`, for ever; dropping the future ends it.
    pub async fn run(mut self, interval: Duration) -> Infallible {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.pass().await;
        }
    }

    /// Reads once and takes up what is new and can be used.
    pub async fn pass(&mut self) {
        let (what, path) = (self.what, self.path.display().to_string());
        let read = read(&self.path).await.map_err(|error| format!("failed to read {path}: {error}"));
        self.reads.total.inc();
        let problem = match read.and_then(|content| self.take_up(content)) {
            Ok(()) => None,
            Err(problem) => {
                self.reads.errors.inc();
                Some(problem)
            }
        };
        if self.latest.set_problem(problem.as_deref())
            && let Some(problem) = problem
        {
            if self.content.is_some() {
                tracing::warn!(path, problem, "keeping the last good {what}");
            } else {
                tracing::warn!(path, problem, "waiting for a usable {what}");
            }
        }
    }

    fn take_up(&mut self, content: Vec<u8>) -> Result<(), String> {
        if self.content.as_ref() == Some(&content) {
            return Ok(());
        }
        let value = (self.parse)(&content)?;
        self.latest.0.value.store(Some(Arc::new(value)));
        self.content = Some(content);
        tracing::info!(path = %self.path.display(), "using a new {}", self.what);
        Ok(())
    }
}

async fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = tokio::fs::File::open(path).await?;
    let length = file.take(MAX_BYTES + 1).read_to_end(&mut content).await?;
    if length as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 1 MiB"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn number(content: &[u8]) -> Result<u32, String> {
        let text = std::str::from_utf8(content).map_err(|error| error.to_string())?;
        text.parse().map_err(|_| format!("failed to read {text:?} as a number"))
    }

    /// A ConfigMap as the kubelet mounts it: a file that links through a directory that links to a version.
    struct Mount(TempDir);

    impl Mount {
        fn new() -> Self {
            let mount = Self(tempfile::tempdir().unwrap());
            symlink("..data/number", mount.file()).unwrap();
            mount
        }

        fn file(&self) -> PathBuf {
            self.0.path().join("number")
        }

        fn put(&self, version: &str, content: &str) {
            fs::create_dir(self.0.path().join(version)).unwrap();
            fs::write(self.0.path().join(version).join("number"), content).unwrap();
            let link = self.0.path().join("..data_tmp");
            symlink(version, &link).unwrap();
            fs::rename(link, self.0.path().join("..data")).unwrap();
        }

        fn reader(&self) -> FileReader<u32> {
            FileReader::new("number", self.file(), number, Reads::default())
        }
    }

    async fn value_after_pass(reader: &mut FileReader<u32>) -> Option<u32> {
        reader.pass().await;
        reader.latest().get().map(|value| *value)
    }

    #[tokio::test]
    async fn a_file_that_comes_later_is_waited_for() {
        let mount = Mount::new();
        let mut reader = mount.reader();
        assert_eq!(value_after_pass(&mut reader).await, None);
        assert!(reader.latest().check().unwrap_err().contains("No such file"));
        mount.put("..1", "1");
        assert_eq!(value_after_pass(&mut reader).await, Some(1));
        assert_eq!(reader.latest().check(), Ok(()));
    }

    #[tokio::test]
    async fn a_swapped_link_is_noticed() {
        let mount = Mount::new();
        mount.put("..1", "1");
        let mut reader = mount.reader();
        assert_eq!(value_after_pass(&mut reader).await, Some(1));
        mount.put("..2", "2");
        assert_eq!(value_after_pass(&mut reader).await, Some(2));
    }

    #[tokio::test]
    async fn what_cannot_be_used_does_not_replace_what_can() {
        let mount = Mount::new();
        mount.put("..1", "1");
        let mut reader = mount.reader();
        reader.pass().await;
        mount.put("..2", "two");
        assert_eq!(value_after_pass(&mut reader).await, Some(1));
        fs::remove_file(mount.file()).unwrap();
        assert_eq!(value_after_pass(&mut reader).await, Some(1));
        assert_eq!((reader.reads.total.get(), reader.reads.errors.get()), (3, 2));
        assert_eq!(reader.latest().check(), Ok(()));
    }

    #[tokio::test]
    async fn a_file_that_is_no_config_map_is_not_read_to_its_end() {
        let mount = Mount::new();
        mount.put("..1", "");
        let file = fs::File::options().write(true).open(mount.file()).unwrap();
        file.set_len(MAX_BYTES + 1).unwrap();
        let mut reader = mount.reader();
        reader.pass().await;
        assert!(reader.latest().check().unwrap_err().contains("longer than 1 MiB"));
    }

    #[test]
    fn each_problem_is_new_once() {
        let latest = Latest::<u32>::empty();
        let set = |problem: &str| latest.set_problem(Some(problem));
        assert_eq!([set("a"), set("a"), set("b"), set("a")], [true, false, true, true]);
    }
}
