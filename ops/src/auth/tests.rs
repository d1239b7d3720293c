use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::routing::get;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

/// Knows some tokens by heart, and counts how often it is asked.
#[derive(Clone, Default)]
struct Heart(Arc<AtomicUsize>);

impl Reviewer for Heart {
    async fn review(&self, token: &str) -> Result<Verdict, String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match token {
            "right" => Ok(Verdict::Allowed),
            "wrong" => Ok(Verdict::Forbidden("mallory".into())),
            "broken" => Err("connection refused".into()),
            "slow" => pending().await,
            _ => Ok(Verdict::Unknown),
        }
    }
}

impl Heart {
    fn router(&self) -> Router {
        protect(Router::new().route("/", get(|| async { "numbers" })), self.clone(), "bind a role")
    }

    fn asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

async fn read(router: &Router, authorization: Option<&str>) -> (u16, String) {
    let mut request = Request::get("/");
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn who_may_read_reads_and_the_others_are_told_why_not() {
    let router = Heart::default().router();
    assert_eq!(read(&router, Some("Bearer right")).await, (200, "numbers".to_owned()));
    assert_eq!(read(&router, Some("bearer  right")).await.0, 200);
    for (sent, code, told) in [
        (None, 401, "there is no token"),
        (Some("Basic right"), 401, "there is no token"),
        (Some("Bearer "), 401, "there is no token"),
        (Some("Bearer other"), 401, "does not know the token"),
        (Some("Bearer wrong"), 403, "mallory may not read this; bind a role"),
        (Some("Bearer broken"), 503, "connection refused"),
    ] {
        let (status, text) = read(&router, sent).await;
        assert!(status == code && text.contains(told), "{sent:?}: {status} {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_for_a_moment() {
    let heart = Heart::default();
    let router = heart.router();
    for token in ["Bearer right", "Bearer right", "Bearer wrong", "Bearer wrong"] {
        read(&router, Some(token)).await;
    }
    assert_eq!(heart.asked(), 2);
    tokio::time::advance(REMEMBERED).await;
    read(&router, Some("Bearer right")).await;
    assert_eq!(heart.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_is_given_up_and_not_remembered() {
    let heart = Heart::default();
    let router = heart.router();
    for _ in 0..2 {
        let (status, text) = read(&router, Some("Bearer slow")).await;
        assert!(status == 503 && text.contains("no answer in time"), "{status} {text}");
    }
    assert_eq!(heart.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn those_who_guess_do_not_flood_the_one_who_is_asked() {
    let heart = Heart::default();
    let router = heart.router();
    let guesses = (0..2 * MOST_QUESTIONS).map(|_| read(&router, Some("Bearer slow")));
    let answers = futures::future::join_all(guesses).await;
    assert_eq!(heart.asked(), MOST_QUESTIONS);
    assert_eq!(answers.iter().filter(|(_, text)| text.contains("too many others")).count(), MOST_QUESTIONS);
}

#[test]
fn the_memory_for_tokens_is_bounded() {
    let mut known = Known::default();
    for number in 0..=u8::try_from(MOST_REMEMBERED).unwrap() {
        known.insert([number; 32], Verdict::Unknown);
    }
    assert_eq!(known.0.len(), MOST_REMEMBERED);
    assert_eq!((known.get(&[0; 32]), known.get(&[1; 32])), (None, Some(Verdict::Unknown)));
}
