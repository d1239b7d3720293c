//! What a connection is doing, and when it has taken too long over it.
//!
//! hyper's own header timeout starts when a connection becomes idle, so it would close those that the API server keeps
//! for 90 s; here each stage has a limit of its own.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How long a connection may take over each stage of its life.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until TLS is agreed upon.
    pub handshake: Duration,
    /// Between requests. The API server keeps idle connections for 90 s; the side that closes first must be theirs.
    pub idle: Duration,
    /// Between requests while draining: whoever still sends requests will have sent one by then.
    pub idle_draining: Duration,
    /// From the first byte of a request to the end of its header.
    pub head: Duration,
    /// From the end of the header to the answer. No webhook may take longer than 30 s.
    pub request: Duration,
    /// From the decision to close until the connection is dropped.
    pub goodbye: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            idle: Duration::from_mins(2),
            idle_draining: Duration::from_secs(1),
            head: Duration::from_secs(10),
            request: Duration::from_secs(30),
            goodbye: Duration::from_secs(1),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Head,
    Request,
}

/// The present stage of a connection and when it began.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<(Stage, Instant)>);

impl Activity {
    /// A new connection is idle: clients open some in advance.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((Stage::Idle, Instant::now()))))
    }

    fn present(&self) -> (Stage, Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (stage, Instant::now());
    }

    /// Bytes came in: the first ones after a pause begin a request.
    fn received(&self) {
        if self.present().0 == Stage::Idle {
            self.enter(Stage::Head);
        }
    }

    /// A request's header is complete.
    pub(crate) fn request_began(&self) {
        self.enter(Stage::Request);
    }

    /// A request was answered.
    pub(crate) fn request_ended(&self) {
        self.enter(Stage::Idle);
    }

    fn deadline(&self, limits: &Limits, draining_since: Option<Instant>) -> Instant {
        let (stage, since) = self.present();
        match (stage, draining_since) {
            (Stage::Idle, None) => since + limits.idle,
            (Stage::Idle, Some(draining)) => since.max(draining) + limits.idle_draining,
            (Stage::Head, _) => since + limits.head,
            (Stage::Request, _) => since + limits.request,
        }
    }
}

/// Completes when the connection has been in one stage for too long.
pub(crate) struct Watchdog {
    activity: Arc<Activity>,
    limits: Limits,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    draining_since: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl Watchdog {
    pub(crate) fn new(activity: Arc<Activity>, limits: Limits, draining: CancellationToken) -> Self {
        let alarm = Box::pin(sleep_until(activity.deadline(&limits, None)));
        let draining = Box::pin(draining.cancelled_owned());
        Self { activity, limits, draining, draining_since: None, alarm }
    }
}

impl Future for Watchdog {
    type Output = ();

    /// Must be polled whenever the connection was: a deadline that moved closer is noticed then. One that moved away is
    /// noticed when the alarm goes off, so that a busy connection does not set an alarm per request.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.draining_since.is_none() && self.draining.as_mut().poll(context).is_ready() {
            self.draining_since = Some(Instant::now());
        }
        let deadline = self.activity.deadline(&self.limits, self.draining_since);
        if deadline < self.alarm.deadline() {
            self.alarm.as_mut().reset(deadline);
        }
        loop {
            ready!(self.alarm.as_mut().poll(context));
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(deadline);
        }
    }
}

/// A stream that reports to an [`Activity`] what it receives.
pub(crate) struct Observed<S> {
    pub(crate) stream: S,
    pub(crate) activity: Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.activity.received();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
