//! `/debug`, for a person on the same machine or behind `kubectl port-forward`: what the process is doing, and the filter of
//! its log.
//!
//! It has a listener of its own that takes loopback addresses only. The probes' port with a look at the peer would not do: to
//! a process beside a proxy every peer may be a loopback one. And it is off unless an address is given, so that nothing
//! listens that nobody has asked for.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use clap::Args;

use crate::logging;

/// No filter of a log that a person writes is longer.
const MAX_FILTER: usize = 4096;

/// Flags of the debug endpoints.
#[derive(Debug, Clone, Args)]
pub struct DebugArgs {
    /// Where /debug is served: a loopback address such as 127.0.0.1:8082. Default: nowhere
    #[arg(long, env = "DEBUG_ADDRESS", value_name = "ADDRESS:PORT", value_parser = loopback)]
    pub debug_address: Option<SocketAddr>,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        _ => Err("write a loopback address and a port, such as 127.0.0.1:8082 or [::1]:8082".to_owned()),
    }
}

/// `GET /debug/log` shows the filter of the log, `PUT` puts the one in its body in force.
pub fn log() -> Router {
    let methods = get(|| async { show() }).put(set).layer(DefaultBodyLimit::max(MAX_FILTER));
    Router::new().route("/debug/log", methods)
}

/// `GET /debug/state` shows the JSON that `state` gives. It is asked each time and must not block.
pub fn state(state: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let show = move || std::future::ready(([(CONTENT_TYPE, "application/json")], state() + "\n"));
    Router::new().route("/debug/state", get(show))
}

fn show() -> String {
    logging::filter().unwrap_or_default() + "\n"
}

async fn set(filter: String) -> (StatusCode, String) {
    match logging::set_filter(filter.trim()) {
        Ok(()) => {
            tracing::info!(filter = logging::filter(), "the log has another filter");
            (StatusCode::OK, show())
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;
    use crate::logging::{LogArgs, LogFormat};

    async fn ask(method: &str, body: &str) -> (u16, String) {
        let request =
            Request::builder().method(method).uri("/debug/log").body(Body::from(body.to_owned())).unwrap();
        let response = log().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// One test, since the log is the process's.
    #[tokio::test]
    async fn the_filter_of_the_log_is_shown_changed_and_kept_where_the_new_one_is_bad() {
        logging::init("test", &LogArgs { log_format: LogFormat::Json, log_level: "info".into() }).unwrap();
        assert_eq!(ask("GET", "").await, (200, "info\n".to_owned()));
        assert!(!tracing::enabled!(tracing::Level::DEBUG));

        assert_eq!(ask("PUT", "debug,hyper=off\n").await.0, 200);
        assert!(tracing::enabled!(tracing::Level::DEBUG));
        let (_, in_force) = ask("GET", "").await;
        assert!(in_force.contains("debug") && in_force.contains("hyper=off"), "{in_force}");

        for bad in ["webhook=loud", "", " "] {
            let (code, sentence) = ask("PUT", bad).await;
            assert!(code == 400 && sentence.contains("write info, debug"), "{code} {sentence}");
        }
        assert_eq!(ask("GET", "").await.1, in_force);
        assert_eq!(ask("PUT", &"x".repeat(MAX_FILTER + 1)).await.0, 413);
    }

    #[test]
    fn what_others_could_reach_is_no_address_for_it() {
        assert!(loopback("127.0.0.1:8082").is_ok() && loopback("[::1]:0").is_ok());
        for text in ["0.0.0.0:8082", "[::]:8082", "10.0.0.1:8082", "8082"] {
            assert!(loopback(text).unwrap_err().contains("127.0.0.1:8082"), "{text}");
        }
    }
}
