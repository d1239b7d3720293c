//! What a person who waits is told.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, interval};

/// Hears about the steps of a long piece of work. Steps follow each other and are named by an imperative, such as
/// "start etcd".
pub trait Progress: Send + Sync {
    /// A step begins.
    fn begin(&self, step: &str);
    /// A step goes on: called every second.
    fn tick(&self, step: &str, elapsed: Duration);
    /// A step has ended, well or not.
    fn end(&self, step: &str, elapsed: Duration, success: bool);
    /// Something that is no step is worth a line.
    fn note(&self, text: &str);
}

/// Tells nobody: for tests.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str) {}
    fn tick(&self, _: &str, _: Duration) {}
    fn end(&self, _: &str, _: Duration, _: bool) {}
    fn note(&self, _: &str) {}
}

/// Does a piece of work as one step.
pub async fn step<T>(
    progress: &dyn Progress,
    name: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let started = Instant::now();
    let mut second = interval(Duration::from_secs(1));
    second.tick().await;
    progress.begin(name);
    tokio::pin!(work);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = second.tick() => progress.tick(name, started.elapsed()),
        }
    };
    progress.end(name, started.elapsed(), result.is_ok());
    result
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use anyhow::bail;
    use tokio::time::sleep;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Recorder {
        fn record(&self, line: String) {
            self.0.lock().unwrap().push(line);
        }
    }

    impl Progress for Recorder {
        fn begin(&self, step: &str) {
            self.record(format!("begin {step}"));
        }
        fn tick(&self, step: &str, elapsed: Duration) {
            self.record(format!("tick {step} {elapsed:?}"));
        }
        fn end(&self, step: &str, elapsed: Duration, success: bool) {
            self.record(format!("end {step} {elapsed:?} {success}"));
        }
        fn note(&self, text: &str) {
            self.record(text.to_owned());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_step_is_heard_of_every_second() {
        let recorder = Recorder::default();
        let work = async {
            sleep(Duration::from_millis(2500)).await;
            Ok(7)
        };
        assert_eq!(step(&recorder, "wait", work).await.unwrap(), 7);
        let heard = recorder.0.into_inner().unwrap();
        assert_eq!(heard, ["begin wait", "tick wait 1s", "tick wait 2s", "end wait 2.5s true"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_fails_is_reported_as_failed() {
        let recorder = Recorder::default();
        let work = async { bail!("no") };
        assert!(step::<()>(&recorder, "fail", work).await.is_err());
        assert_eq!(recorder.0.into_inner().unwrap(), ["begin fail", "end fail 0ns false"]);
    }
}
