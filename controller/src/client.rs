//! Clients of the API server: where it is, who we are, how long we wait, and a count of every request.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::util::BoxService;
use tower::{BoxError, Layer, Service};

use crate::engine::{Fence, FenceLayer, HeedRetryAfter, PaceWatches};
use crate::heard::{Heard, HeardLayer};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the server may be silent on a watch: longer than it keeps one open.
const WATCH_SILENCE: Duration = Duration::from_mins(1);
/// How long the server may be silent on any other request.
const CALL_SILENCE: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file that was named cannot be used.
    #[error("failed to use kubeconfig {}: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing says where the API server is.
    #[error(
        "failed to find the API server: {0}; pass --kubeconfig FILE, set KUBECONFIG, or run in a pod with a service account"
    )]
    Infer(String),
    /// The client cannot be made from what was found.
    #[error("failed to set up the client: {0}")]
    Build(String),
}

/// Finds the API server and the account, from `kubeconfig` or from the surroundings.
///
/// # Errors
/// The file cannot be used, or there is nothing to be found.
pub async fn config(kubeconfig: Option<PathBuf>) -> Result<Config, ClientError> {
    let path = kubeconfig.or_else(named_by_environment);
    let mut config = match path {
        None => Config::infer().await.map_err(|error| ClientError::Infer(sentence(&error)))?,
        Some(path) => {
            let unusable = |error| ClientError::Kubeconfig { path: path.clone(), reason: sentence(&error) };
            let file = Kubeconfig::read_from(&path).map_err(unusable)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(unusable)?
        }
    };
    let agent = concat!("webservice-controller/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    config.connect_timeout = Some(CONNECT);
    config.write_timeout = Some(CALL_SILENCE);
    config.reset_reader_on_write = true;
    // Repeating is the engine's: a client that repeats by itself hides failures and holds workers for minutes.
    config.default_retry = false;
    Ok(config)
}

/// A KUBECONFIG that names one file. Several are merged by the client library.
fn named_by_environment() -> Option<PathBuf> {
    let value = std::env::var_os("KUBECONFIG")?;
    let mut paths = std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty());
    let first = paths.next()?;
    paths.next().is_none().then_some(first)
}

/// A client for watches. They have connections of their own, so that bursts of other requests do not delay them.
///
/// # Errors
/// The certificates or the account of `config` cannot be used.
pub fn watching(
    config: &Config,
    count: impl RequestCounter,
    heard: &Arc<Heard>,
) -> Result<Client, ClientError> {
    let client = builder(config, WATCH_SILENCE)?.with_layer(&HeardLayer(Arc::clone(heard)));
    let client = client.with_layer(&PaceWatches).with_layer(&Counting { count });
    Ok(client.with_layer(&HeedRetryAfter).build())
}

/// A client for questions about those who read the metrics, which a standby asks too.
///
/// # Errors
/// The certificates or the account of `config` cannot be used.
pub fn reviewing(config: &Config, count: impl RequestCounter) -> Result<Client, ClientError> {
    Ok(builder(config, CALL_SILENCE)?.with_layer(&Counting { count }).build())
}

/// A client for what only the leader may do: nothing begins outside the fence.
///
/// # Errors
/// The certificates or the account of `config` cannot be used.
pub fn calling(config: &Config, count: impl RequestCounter, fence: Fence) -> Result<Client, ClientError> {
    let client = builder(config, CALL_SILENCE)?.with_layer(&Counting { count });
    Ok(client.with_layer(&HeedRetryAfter).with_layer(&FenceLayer(fence)).build())
}

/// A client for the Lease itself.
///
/// # Errors
/// The certificates or the account of `config` cannot be used.
pub fn electing(config: &Config, count: impl RequestCounter) -> Result<Client, ClientError> {
    Ok(builder(config, WATCH_SILENCE)?.with_layer(&PaceWatches).with_layer(&Counting { count }).build())
}

/// The client library's own layers.
type Stack = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

fn builder(config: &Config, silence: Duration) -> Result<ClientBuilder<Stack>, ClientError> {
    let mut config = config.clone();
    config.read_timeout = Some(silence);
    ClientBuilder::try_from(config).map_err(|error| ClientError::Build(sentence(&error)))
}

/// The error and its causes, in one line.
fn sentence(error: &dyn std::error::Error) -> String {
    crate::failure::with_sources(error).replace('\n', " ")
}

/// Told of every request: the method, and the status code, or none where there was no answer.
pub trait RequestCounter: Fn(&http::Method, Option<u16>) + Clone + Send + Sync + 'static {}

impl<F: Fn(&http::Method, Option<u16>) + Clone + Send + Sync + 'static> RequestCounter for F {}

struct Counting<C> {
    count: C,
}

impl<S, C: Clone> Layer<S> for Counting<C> {
    type Service = Counted<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Counted { inner, count: self.count.clone() }
    }
}

struct Counted<S, C> {
    inner: S,
    count: C,
}

impl<S, C, B> Service<Request<Body>> for Counted<S, C>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    C: RequestCounter,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, count) = (request.method().clone(), self.count.clone());
        let answer = self.inner.call(request);
        answer
            .inspect(move |answer| {
                count(&method, answer.as_ref().ok().map(|answer| answer.status().as_u16()));
            })
            .boxed()
    }
}
