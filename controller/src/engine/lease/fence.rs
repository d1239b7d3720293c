//! The fence: no request of a holder outlives its term.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{BoxError, Layer, Service};

use super::Clock;

/// The longest time that a request may take inside the fence.
pub const LONGEST_REQUEST: Duration = Duration::from_secs(4);

/// The end of the holder's term, shared by all who act for it. Closed at first. Cheap to clone.
///
/// It closes by itself: nobody has to run for that, so it also holds in a process that was stopped and went
/// on.
#[derive(Clone)]
pub struct Fence {
    clock: Arc<dyn Clock>,
    /// In nanoseconds of the clock; 0 is closed.
    closes: Arc<AtomicU64>,
}

/// Why a request was not sent, or its answer not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fenced {
    /// The term is over, or has not begun.
    #[error("this process does not lead")]
    NotLeading,
    /// The request did not end in the time that one may take.
    #[error("no answer within {} s", LONGEST_REQUEST.as_secs())]
    TooLate,
}

impl Fence {
    /// A closed fence.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, closes: Arc::default() }
    }

    /// A fence that never closes, for those who run without election.
    #[must_use]
    pub fn always_open(clock: Arc<dyn Clock>) -> Self {
        let fence = Self::new(clock);
        fence.closes.store(u64::MAX, Ordering::Release);
        fence
    }

    /// Whether a request may begin.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.budget(Duration::MAX).is_ok()
    }

    /// The time that a request which begins now and wants `longest` may take.
    pub fn budget(&self, longest: Duration) -> Result<Duration, Fenced> {
        match self.closes().checked_sub(self.clock.now()) {
            Some(left) if !left.is_zero() => Ok(left.min(longest)),
            _ => Err(Fenced::NotLeading),
        }
    }

    /// When the fence closes, on its clock.
    #[must_use]
    pub fn closes(&self) -> Duration {
        Duration::from_nanos(self.closes.load(Ordering::Acquire))
    }

    pub(super) fn open_until(&self, closes: Duration) {
        self.closes.store(u64::try_from(closes.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Closes the fence for good, unless the election opens it again.
    pub fn close(&self) {
        self.closes.store(0, Ordering::Release);
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&self.budget(Duration::MAX)).finish()
    }
}

/// Puts every request of a client inside the fence, its retries included. For
/// `kube::client::ClientBuilder::with_layer`.
///
/// A request that begins outside fails with [`Fenced`] and is not sent. One that runs is dropped after
/// [`LONGEST_REQUEST`] or at the end of the term that it began in, and the clock is read before every step
/// that it makes: a process that slept too long sends nothing when it wakes.
#[derive(Clone, Debug)]
pub struct FenceLayer(pub Fence);

impl<S> Layer<S> for FenceLayer {
    type Service = FencedService<S>;

    fn layer(&self, inner: S) -> FencedService<S> {
        FencedService { inner, fence: self.0.clone() }
    }
}

/// What [`FenceLayer`] makes of a service.
#[derive(Clone, Debug)]
pub struct FencedService<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for FencedService<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = FencedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let budget = self.fence.budget(LONGEST_REQUEST).unwrap_or_default();
        FencedFuture {
            // Sends nothing before it is polled.
            inner: Box::pin(self.inner.call(request)),
            alarm: Box::pin(sleep_until(Instant::now() + budget)),
            ends: self.fence.clock.now() + budget,
            fence: self.fence.clone(),
        }
    }
}

/// See [`FenceLayer`].
pub struct FencedFuture<F> {
    inner: Pin<Box<F>>,
    /// Wakes the task when the time is over; what counts is the clock.
    alarm: Pin<Box<Sleep>>,
    ends: Duration,
    fence: Fence,
}

impl<F, T, E> Future for FencedFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.fence.is_open() {
            return Poll::Ready(Err(Fenced::NotLeading.into()));
        }
        if self.fence.clock.now() >= self.ends || self.alarm.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Fenced::TooLate.into()));
        }
        self.inner.as_mut().poll(cx).map_err(Into::into)
    }
}
