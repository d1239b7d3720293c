//! `/livez` and `/readyz`, with named checks, in the form of the API server's own health endpoints: listed with `?verbose`
//! or on failure.

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
    holds: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// A check called `name`. It is asked at every probe and must not block.
    pub fn new(name: &'static str, holds: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, holds: Box::new(holds) }
    }
}

/// The routes. Alive is a process that answers; ready is one of which all checks hold.
pub fn router(ready: Vec<Check>) -> Router {
    let ready = Arc::new(ready);
    Router::new()
        .route("/livez", get(|query: Verbose| answer("livez", &[], &query)))
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
            Ok(()) => writeln!(lines, "[+]{name} ok"),
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
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(ready).oneshot(request).await.unwrap();
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
}
