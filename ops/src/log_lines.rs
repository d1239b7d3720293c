//! Log lines on their way to standard output.
//!
//! Standard output may be slow: a disk that syncs, a collector that hangs. Whoever logs must not wait for it, or a few lines
//! hold up everything that the process does. So a thread of its own writes, lines wait in a bounded queue, and those that do
//! not fit are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Lines that may wait, of a few hundred bytes each.
const CAPACITY: usize = 4096;

enum Message {
    Line(Vec<u8>),
    /// To be answered when everything before it is written.
    Flush(SyncSender<()>),
}

/// Where lines are put. Each write is one line, as `tracing_subscriber` makes them.
#[derive(Clone)]
pub(crate) struct LogLines {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl LogLines {
    /// Lines that a new thread writes to `output`. `told` is called there with the number of lines that were dropped, when it
    /// goes on.
    pub(crate) fn to(output: impl Write + Send + 'static, told: fn(u64)) -> io::Result<Self> {
        let (queue, lines) = sync_channel(CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        thread::Builder::new().name("log".into()).spawn(move || write(&lines, output, &counted, told))?;
        Ok(Self { queue, dropped })
    }

    /// Waits until what was logged before is written, but not for long.
    pub(crate) fn flush(&self, patience: Duration) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Message::Flush(done)).is_ok() {
            // Whether it was in time or not: nothing more can be done.
            _ = written.recv_timeout(patience);
        }
    }
}

impl Write for LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Message::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(lines: &Receiver<Message>, mut output: impl Write, dropped: &AtomicU64, told: fn(u64)) {
    for message in lines {
        match message {
            // Nobody can be told of a log that cannot be written.
            Message::Line(line) => _ = output.write_all(&line).and_then(|()| output.flush()),
            // Whoever asked may have given up.
            Message::Flush(done) => _ = done.send(()),
        }
        let number = dropped.swap(0, Ordering::Relaxed);
        if number > 0 {
            told(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Writes as often as it is let.
    struct Gated {
        permits: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.permits.recv().map_err(io::Error::other)?;
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated(told: fn(u64)) -> (LogLines, Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (permit, permits) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let lines = LogLines::to(Gated { permits, written: Arc::clone(&written) }, told).unwrap();
        (lines, permit, written)
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let (mut lines, permit, written) = gated(|_| {});
        for line in ["a\n", "b\n", "c\n"] {
            permit.send(()).unwrap();
            lines.write_all(line.as_bytes()).unwrap();
        }
        lines.flush(PATIENCE);
        assert_eq!(*written.lock().unwrap(), b"a\nb\nc\n");
    }

    #[test]
    fn an_output_that_hangs_holds_nobody_up_and_what_was_lost_is_told_when_it_goes_on() {
        static LOST: AtomicU64 = AtomicU64::new(0);
        let (mut lines, permit, _written) = gated(|number| _ = LOST.fetch_add(number, Ordering::Relaxed));
        for _ in 0..2 * CAPACITY {
            lines.write_all(b"x\n").unwrap();
        }
        lines.flush(Duration::from_millis(1));
        for _ in 0..=CAPACITY {
            permit.send(()).unwrap();
        }
        drop(permit);
        while LOST.load(Ordering::Relaxed) < u64::try_from(CAPACITY).unwrap() - 1 {
            thread::yield_now();
        }
    }
}
