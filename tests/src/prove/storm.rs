//! Clients that want nothing good, many at a time: some say nothing, some take for ever, some speak nonsense.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use webservice_api::constants::VALIDATE_PATH;

use super::caller::Trust;
use crate::bed::eventually;

/// How many there are of each kind.
const SILENT: usize = 250;
const UNUSED: usize = 250;
const SLOW_HEADS: usize = 100;
const SLOW_BODIES: usize = 100;
const GARBAGE: usize = 200;
const ALL: usize = SILENT + UNUSED + SLOW_HEADS + SLOW_BODIES + GARBAGE;

/// Between two bytes of who takes for ever.
const DRIP: Duration = Duration::from_millis(500);
/// Before somebody whose connection was closed comes again.
const BREATH: Duration = Duration::from_secs(1);

/// What is no TLS, and what is no HTTP inside it.
const NONSENSE: [&[u8]; 6] = [
    b"GET / HTTP/1.1\r\nhost: webhook\r\n\r\n",
    b"\x16\x03\x01\xff\xff\x01\x00\x00\x00",
    b"\x15\x03\x03\x00\x02\x02\x28",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\xff\xfe\xfd\xfc",
];

/// All of them at work, on a thread of their own. They leave with the value.
pub struct Storm {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Storm {
    /// Lets them loose, and waits until each has connected once.
    pub async fn at(address: SocketAddr, trust: Arc<Trust>) -> Result<Self> {
        let stop = CancellationToken::new();
        let connected = Arc::new(AtomicUsize::new(0));
        let runtime =
            Builder::new_current_thread().enable_all().build().context("failed to make a runtime")?;
        let raging = rage(address, trust, Arc::clone(&connected));
        let stopped = stop.clone();
        let run = move || {
            runtime.block_on(stopped.run_until_cancelled(raging));
        };
        let storm = Self { stop, thread: Some(thread::spawn(run)) };
        eventually("everybody is connected", async || match connected.load(Ordering::Relaxed) {
            ALL.. => Ok(()),
            number => Err(format!("{number} of {ALL} are")),
        })
        .await;
        Ok(storm)
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.stop.cancel();
        // A panic in there has been printed, and what it breaks shows in the figures.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Silent,
    Unused,
    SlowHead,
    SlowBody,
    Garbage(usize),
}

async fn rage(address: SocketAddr, trust: Arc<Trust>, connected: Arc<AtomicUsize>) {
    let kinds = [(Kind::Silent, SILENT), (Kind::Unused, UNUSED)];
    let slow = [(Kind::SlowHead, SLOW_HEADS), (Kind::SlowBody, SLOW_BODIES)];
    let kinds = kinds.into_iter().chain(slow).flat_map(|(kind, count)| std::iter::repeat_n(kind, count));
    let mut clients = JoinSet::new();
    for kind in kinds.chain((0..GARBAGE).map(Kind::Garbage)) {
        let (trust, connected) = (Arc::clone(&trust), Arc::clone(&connected));
        clients.spawn(async move {
            let mut is_counted = false;
            loop {
                let arrived = || {
                    connected.fetch_add(usize::from(!is_counted), Ordering::Relaxed);
                    is_counted = true;
                };
                // To be thrown out is what they are here for.
                _ = kind.visit(address, &trust, arrived).await;
                tokio::time::sleep(BREATH).await;
            }
        });
    }
    while clients.join_next().await.is_some() {}
}

impl Kind {
    /// From one connection's beginning to its end.
    async fn visit(self, address: SocketAddr, trust: &Trust, arrived: impl FnOnce()) -> Result<()> {
        match self {
            Self::Silent => {
                let stream = TcpStream::connect(address).await?;
                arrived();
                listen(stream).await
            }
            Self::Unused => {
                let stream = trust.connect(address).await?;
                arrived();
                listen(stream).await
            }
            Self::SlowHead => {
                let stream = trust.connect(address).await?;
                arrived();
                drip(stream, &format!("POST {VALIDATE_PATH} HTTP/1.1\r\nx-slow: ")).await
            }
            Self::SlowBody => {
                let stream = trust.connect(address).await?;
                arrived();
                let head = "HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n";
                drip(stream, &format!("POST {VALIDATE_PATH} {head}")).await
            }
            Self::Garbage(number) => {
                let mut stream = TcpStream::connect(address).await?;
                arrived();
                stream.write_all(NONSENSE[number % NONSENSE.len()]).await?;
                listen(stream).await
            }
        }
    }
}

async fn listen(mut stream: impl AsyncRead + Unpin) -> Result<()> {
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn drip(mut stream: impl AsyncRead + AsyncWrite + Unpin, beginning: &str) -> Result<()> {
    stream.write_all(beginning.as_bytes()).await?;
    let mut answer = [0; 64];
    loop {
        stream.write_all(b" ").await?;
        stream.flush().await?;
        // Whatever the server says, its end of the connection closes after it.
        if let Ok(read) = tokio::time::timeout(DRIP, stream.read(&mut answer)).await {
            read?;
            return Ok(());
        }
    }
}
