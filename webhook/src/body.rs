//! Reading of request bodies within bounds: each has a limit, and all together have a budget.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// Longest body, as in controller-runtime: an update carries the object twice, an object is at most 3 MiB in a request,
/// and there is the rest.
pub(crate) const MAX_BODY: usize = 7 * 1024 * 1024;

/// What the bodies in memory may have together. Reviews are a few KiB, so this is room for thousands of them, and
/// callers that send without end cannot take more.
const BUDGET: usize = 24 * 1024 * 1024;

/// Bytes that may be in memory at a time.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

/// A whole body, counted against the budget while it is held.
#[derive(Debug)]
pub(crate) struct Payload {
    bytes: Bytes,
    _reserved: Option<OwnedSemaphorePermit>,
}

impl Payload {
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
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Reads a body to its end. It is counted as it arrives, so that a slow caller occupies only what it has sent.
    pub(crate) async fn read(&self, body: &mut Body) -> Result<Payload, Refusal> {
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > MAX_BODY {
            return Err(Refusal::TooLarge);
        }
        let mut reserved = None;
        let first = next_chunk(body).await?.unwrap_or_default();
        self.reserve(first.len(), &mut reserved)?;
        if body.is_end_stream() {
            // The usual case: a small body in one piece is used where it lies.
            return Ok(Payload { bytes: first, _reserved: reserved });
        }
        let mut whole = Vec::with_capacity(declared);
        whole.extend_from_slice(&first);
        while let Some(chunk) = next_chunk(body).await? {
            self.reserve(chunk.len(), &mut reserved)?;
            if whole.len() + chunk.len() > MAX_BODY {
                return Err(Refusal::TooLarge);
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(Payload { bytes: whole.into(), _reserved: reserved })
    }

    fn reserve(&self, bytes: usize, reserved: &mut Option<OwnedSemaphorePermit>) -> Result<(), Refusal> {
        let bytes = u32::try_from(bytes).map_err(|_| Refusal::TooLarge)?;
        let more = Arc::clone(&self.0).try_acquire_many_owned(bytes).map_err(|_| Refusal::Busy)?;
        match reserved {
            Some(permit) => permit.merge(more),
            None => *reserved = Some(more),
        }
        Ok(())
    }
}

/// Reads what is left of a body and forgets it, within the limit: a caller that is still sending would take an early
/// answer for a broken connection.
pub(crate) async fn discard(mut body: Body) {
    let mut length = 0;
    while let Ok(Some(chunk)) = next_chunk(&mut body).await {
        length += chunk.len();
        if length > MAX_BODY {
            return;
        }
    }
}

/// The next piece of the body; trailers are skipped.
async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Refusal::Interrupted)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// A body of unknown length in the given pieces.
    fn chunked(chunks: &[&[u8]]) -> Body {
        let frames: Vec<_> =
            chunks.iter().map(|chunk| Bytes::copy_from_slice(chunk)).map(Frame::data).collect();
        Body::new(StreamBody::new(stream::iter(frames.into_iter().map(Ok::<_, Infallible>))))
    }

    async fn read(budget: &Budget, mut body: Body) -> Result<Payload, Refusal> {
        budget.read(&mut body).await
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_put_together() {
        let payload = read(&Budget::default(), chunked(&[b"ab", b"c"])).await.unwrap();
        assert_eq!(payload.as_slice(), b"abc");
    }

    #[tokio::test]
    async fn a_body_in_one_piece_is_not_copied() {
        let bytes = Bytes::from_static(b"review");
        let payload = read(&Budget::default(), Body::from(bytes.clone())).await.unwrap();
        assert_eq!(payload.as_slice().as_ptr(), bytes.as_ptr());
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
    async fn bodies_beyond_the_budget_are_put_off_until_others_are_done() {
        let budget = Budget::new(10);
        let first = read(&budget, Body::from("12345678")).await.unwrap();
        let refusal = read(&budget, Body::from("123")).await.unwrap_err();
        assert!(matches!(refusal, Refusal::Busy), "{refusal}");
        drop(first);
        read(&budget, Body::from("123")).await.unwrap();
    }
}
