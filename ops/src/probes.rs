//! `/livez` and `/readyz`, with named checks, in the form of the API server's own health endpoints: listed with `?verbose`
//! or on failure. Unlike there, a check that holds may say how things are.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;

/// One thing that must hold; the error says what does not, in a sentence.
pub struct Check {
    name: &'static str,
    holds: Box<dyn Fn() -> Result<String, String> + Send + Sync>,
}

impl Check {
    /// A check called `name`. It is asked at every probe and must not block.
    pub fn new(name: &'static str, holds: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self::telling(name, move || holds().map(|()| String::new()))
    }

    /// One that says how things are also while it holds.
    pub fn telling(
        name: &'static str,
        holds: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, holds: Box::new(holds) }
    }
}

/// The routes. What is not `alive` should be started anew, what is not `ready` be left alone for a while; without checks a
/// process that answers is both.
pub fn router(alive: Vec<Check>, ready: Vec<Check>) -> Router {
    let (alive, ready) = (Arc::new(alive), Arc::new(ready));
    Router::new()
        .route("/livez", get(move |query: Verbose| answer("livez", &alive, &query)))
        .route("/readyz", get(move |query: Verbose| answer("readyz", &ready, &query)))
}

type Verbose = Query<HashMap<String, String>>;

fn answer(
    endpoint: &str,
    checks: &[Check],
    query: &Verbose,
) -> std::future::Ready<impl IntoResponse + use<>> {
    std::future::ready(report(endpoint, checks, query.contains_key("verbose")))
}

fn report(endpoint: &str, checks: &[Check], verbose: bool) -> (StatusCode, String) {
    let mut lines = String::new();
    let mut failed = false;
    for Check { name, holds } in checks {
        // Writing to a string cannot fail.
        let _ = match holds() {
            Ok(state) if state.is_empty() => writeln!(lines, "[+]{name} ok"),
            Ok(state) => writeln!(lines, "[+]{name} ok: {state}"),
            Err(reason) => {
                failed = true;
                writeln!(lines, "[-]{name} failed: {reason}")
            }
        };
    }
    match (failed, verbose) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, format!("{lines}{endpoint} check failed\n")),
        (false, true) => (StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
        (false, false) => (StatusCode::OK, "ok".into()),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    fn good() -> Check {
        Check::new("certificate", || Ok(()))
    }

    fn bad() -> Check {
        Check::new("api", || Err("no answer for 5 s".into()))
    }

    async fn probe(path: &str, ready: Vec<Check>) -> (u16, String) {
        ask(path, router(vec![], ready)).await
    }

    async fn ask(path: &str, router: Router) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_failure_lists_every_check_with_its_reason() {
        let text = "[+]certificate ok\n[-]api failed: no answer for 5 s\nreadyz check failed\n";
        assert_eq!(probe("/readyz", vec![good(), bad()]).await, (503, text.to_owned()));
    }

    #[tokio::test]
    async fn success_is_one_word_unless_the_query_asks_for_more() {
        let all = "[+]certificate ok\nreadyz check passed\n";
        for (query, text) in [("", "ok"), ("?verbose", all), ("?a=b&verbose=true", all), ("?verbosely", "ok")]
        {
            assert_eq!(
                probe(&format!("/readyz{query}"), vec![good()]).await,
                (200, text.to_owned()),
                "{query}"
            );
        }
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_is_alive() {
        assert_eq!(probe("/livez", vec![bad()]).await, (200, "ok".to_owned()));
        assert_eq!(probe("/livez?verbose", vec![bad()]).await.1, "livez check passed\n");
    }

    #[tokio::test]
    async fn a_process_that_is_not_alive_says_why() {
        let text = "[-]api failed: no answer for 5 s\nlivez check failed\n";
        assert_eq!(ask("/livez", router(vec![bad()], vec![good()])).await, (503, text.to_owned()));
    }

    #[tokio::test]
    async fn a_check_that_holds_may_say_how_things_are() {
        let check = Check::telling("cache", || Ok("12 objects".into()));
        assert_eq!(
            probe("/readyz?verbose", vec![check]).await.1,
            "[+]cache ok: 12 objects\nreadyz check passed\n"
        );
    }
}
