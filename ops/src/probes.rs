//! `/livez` and `/readyz`, with named checks, in the form of the API server's own health endpoints.

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
        (false, false) => (StatusCode::OK, "ok\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Vec<Check> {
        vec![Check::new("certificate", || Ok(())), Check::new("api", || Err("no answer for 5 s".into()))]
    }

    #[test]
    fn a_failed_check_is_named_with_its_reason() {
        let (code, text) = report("readyz", &checks(), false);
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "[+]certificate ok\n[-]api failed: no answer for 5 s\nreadyz check failed\n");
    }

    #[test]
    fn all_checks_are_listed_on_demand() {
        assert_eq!(report("readyz", &checks()[..1], true).1, "[+]certificate ok\nreadyz check passed\n");
        assert_eq!(report("livez", &[], false), (StatusCode::OK, "ok\n".into()));
    }
}
