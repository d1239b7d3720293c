//! Reading of request bodies within bounds: each has a limit, and all together have a budget.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::json::Condensed;
use crate::refusal::Refusal;

/// Longest body, as in controller-runtime: an update carries the object twice, an object is at most 3 MiB in a request,
/// and there is the rest.
pub(crate) const MAX_BODY: usize = 7 * 1024 * 1024;

/// What unfinished bodies may have together. Reviews are a few KiB, so this is room for hundreds of them, and callers that
/// send without end cannot take more.
const BUDGET: usize = 8 * 1024 * 1024;

/// What an unfinished body counts beside its own bytes: the buffers of its connection.
const UNFINISHED: usize = 32 * 1024;

/// Bodies that wait, while the budget is used up, until it is their turn to be read without it; and how long.
const WAITING: usize = 32;
/// See [`WAITING`]; also how long a refused body is read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Refused bodies that are read to their end at a time.
const DISCARDED: usize = 16;

/// The body of a request, from whatever source.
pub(crate) trait RequestBody:
    HttpBody<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static
{
}

impl<B> RequestBody for B where
    B: HttpBody<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static
{
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
    /// For the one body that goes on when nothing is left, so that not all wait for each other.
    last: Semaphore,
    waiting: Semaphore,
    discarded: Arc<Semaphore>,
}

/// What is kept of a body, counted while it is held.
#[derive(Debug)]
pub(crate) struct Payload<'b> {
    bytes: Bytes,
    _reserved: Reserved<'b>,
}

impl Payload<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl Budget {
    fn new(bytes: usize) -> Self {
        Self {
            left: AtomicUsize::new(bytes),
            last: Semaphore::new(1),
            waiting: Semaphore::new(WAITING),
            discarded: Arc::new(Semaphore::new(DISCARDED)),
        }
    }

    /// Reads a body to its end, condensed. It is counted as it arrives, so that a slow caller occupies only what it has sent.
    /// One that is there in one piece, as reviews are, waits for nothing: it is neither counted nor copied.
    pub(crate) async fn read(&self, body: &mut impl RequestBody) -> Result<Payload<'_>, Refusal> {
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > MAX_BODY {
            return Err(Refusal::TooLarge);
        }
        let mut reserved = Reserved { budget: self, bytes: 0, last: None };
        let first = next_chunk(body).await?.unwrap_or_default();
        if body.is_end_stream() {
            return Ok(Payload { bytes: first, _reserved: reserved });
        }
        let (mut length, mut condensed) = (0, Condensed::default());
        let mut chunk = Some(first);
        while let Some(bytes) = chunk {
            length += bytes.len();
            if length > MAX_BODY {
                return Err(Refusal::TooLarge);
            }
            reserved.hold(UNFINISHED + condensed.size() + bytes.len()).await?;
            condensed.push(&bytes);
            // Before the next one comes: its memory serves that one too.
            drop(bytes);
            chunk = next_chunk(body).await?;
        }
        Ok(Payload { bytes: condensed.into_text().into(), _reserved: reserved })
    }

    /// Reads what is left of a refused body for a moment, beside the answer, and forgets it: a caller that is still sending
    /// might take the end of its connection for a failure and overlook the answer. Where too many do, it is ended at once.
    pub(crate) fn discard(&self, mut body: impl RequestBody) {
        let Ok(place) = Arc::clone(&self.discarded).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let _ = tokio::time::timeout(PATIENCE, async {
                let mut length = 0;
                while let Some(Ok(frame)) = body.frame().await
                    && length <= MAX_BODY
                {
                    length += frame.data_ref().map_or(0, Bytes::len);
                }
            })
            .await;
            drop(place);
        });
    }
}

/// Part of a budget, which has it back when this is dropped.
#[derive(Debug)]
struct Reserved<'b> {
    budget: &'b Budget,
    bytes: usize,
    last: Option<SemaphorePermit<'b>>,
}

impl Reserved<'_> {
    /// Sees to it that at least so many are reserved.
    async fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        let order = Ordering::Relaxed;
        let missing = bytes.saturating_sub(self.bytes);
        if missing == 0 || self.last.is_some() {
            return Ok(());
        }
        if self.budget.left.fetch_update(order, order, |left| left.checked_sub(missing)).is_ok() {
            self.bytes += missing;
            return Ok(());
        }
        let _place = self.budget.waiting.try_acquire().map_err(|_| Refusal::Busy)?;
        let turn = tokio::time::timeout(PATIENCE, self.budget.last.acquire()).await;
        self.last = turn.ok().and_then(Result::ok);
        if self.last.is_some() { Ok(()) } else { Err(Refusal::Busy) }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// The next piece of the body; trailers are skipped.
async fn next_chunk(body: &mut impl RequestBody) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|error| Refusal::Interrupted(error.into()))?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::Instant;

    use super::*;

    /// A body of unknown length in the given pieces.
    fn chunked(chunks: &[&[u8]]) -> Body {
        let frames: Vec<_> =
            chunks.iter().map(|chunk| Bytes::copy_from_slice(chunk)).map(Frame::data).collect();
        Body::new(StreamBody::new(stream::iter(frames.into_iter().map(Ok::<_, Infallible>))))
    }

    async fn read(budget: &Budget, mut body: Body) -> Result<Payload<'_>, Refusal> {
        budget.read(&mut body).await
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_put_together() {
        let budget = Budget::default();
        let payload = read(&budget, chunked(&[b"ab", b"c"])).await.unwrap();
        assert_eq!(payload.as_slice(), b"abc");
    }

    #[tokio::test]
    async fn a_body_in_one_piece_is_not_copied() {
        let (budget, bytes) = (Budget::default(), Bytes::from_static(b"review"));
        let payload = read(&budget, Body::from(bytes.clone())).await.unwrap();
        assert_eq!(payload.as_slice().as_ptr(), bytes.as_ptr());
    }

    #[tokio::test]
    async fn what_nobody_asks_for_is_not_held() {
        let (budget, filler) = (Budget::default(), vec![b'a'; MAX_BODY / 2]);
        let mut pieces = vec![&br#"{"annotations":{""#[..]];
        pieces.extend(filler.chunks(UNFINISHED));
        pieces.push(br#""}}"#);
        let payload = read(&budget, chunked(&pieces)).await.unwrap();
        assert_eq!(payload.as_slice(), br#"{"annotations":{}}"#);
        assert!(budget.left.load(Ordering::Relaxed) > BUDGET - 3 * UNFINISHED);
    }

    #[tokio::test]
    async fn no_body_is_an_empty_body() {
        assert_eq!(read(&Budget::default(), Body::empty()).await.unwrap().as_slice(), b"");
    }

    #[tokio::test]
    async fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
        let budget = Budget::default();
        let half = vec![b' '; MAX_BODY / 2];
        read(&budget, chunked(&[&half, &half])).await.unwrap();
        let refusal = read(&budget, chunked(&[&half, &half, b" "])).await.unwrap_err();
        assert!(matches!(refusal, Refusal::TooLarge), "{refusal}");
        let refusal = read(&budget, Body::from(vec![b' '; MAX_BODY + 1])).await.unwrap_err();
        assert!(matches!(refusal, Refusal::TooLarge), "{refusal}");
    }

    #[tokio::test]
    async fn a_body_in_one_piece_needs_no_budget() {
        read(&Budget::new(0), Body::from("review")).await.unwrap();
    }

    const PIECES: [&[u8]; 2] = [b"ab", b"c"];

    #[tokio::test]
    async fn an_unfinished_body_has_its_part_of_the_budget_until_it_is_dropped() {
        let budget = Budget::default();
        let held = read(&budget, chunked(&PIECES)).await.unwrap();
        assert!(budget.left.load(Ordering::Relaxed) < BUDGET - UNFINISHED);
        drop(held);
        assert_eq!(budget.left.load(Ordering::Relaxed), BUDGET);
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_budget_one_body_at_a_time_is_read_and_others_wait_for_a_moment() {
        let budget = Budget::new(UNFINISHED);
        let held = read(&budget, chunked(&PIECES)).await.unwrap();
        let began = Instant::now();
        let refusal = read(&budget, chunked(&PIECES)).await.unwrap_err();
        assert!(matches!(refusal, Refusal::Busy), "{refusal}");
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());

        let (next, ()) = tokio::join!(read(&budget, chunked(&PIECES)), async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(held);
        });
        next.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_wait_and_all_others_are_put_off_at_once() {
        let budget = Budget::new(0);
        let _held = read(&budget, chunked(&PIECES)).await.unwrap();
        let began = Instant::now();
        let read = || async { (read(&budget, chunked(&PIECES)).await.is_err(), began.elapsed()) };
        let all = futures::future::join_all((0..WAITING + 5).map(|_| read())).await;
        let at_once = all.iter().filter(|(refused, after)| *refused && after.is_zero()).count();
        assert_eq!((at_once, all.iter().filter(|(refused, _)| *refused).count()), (5, WAITING + 5));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_bodies_are_read_for_a_moment_and_a_few_at_a_time() {
        let (budget, held) = (Budget::default(), Arc::new(()));
        for _ in 0..=DISCARDED {
            let held = Arc::clone(&held);
            let endless = stream::pending::<Result<Frame<Bytes>, Infallible>>();
            budget.discard(StreamBody::new(endless.inspect(move |_| _ = &held)));
        }
        assert_eq!(Arc::strong_count(&held) - 1, DISCARDED);
        tokio::time::sleep(PATIENCE + Duration::from_millis(1)).await;
        assert_eq!(Arc::strong_count(&held) - 1, 0);
    }
}
