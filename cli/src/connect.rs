//! From kubeconfig to a client with deadlines.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use webservice_controller::failure::with_sources;

use crate::args::Connection;
use crate::error::Error;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may pause.
const SILENCE: Duration = Duration::from_secs(15);

/// A client, and what it was made from.
pub(crate) struct Connected {
    pub(crate) client: Client,
    /// URL of the API server.
    pub(crate) server: String,
    /// The namespace that was asked for, or that of the context.
    pub(crate) namespace: String,
}

/// Prepares the connection; the first request makes it.
pub(crate) async fn connect(wanted: &Connection) -> Result<Connected, Error> {
    let mut config = config(wanted).await?;
    // A retry of the client's own would hide for minutes what the person can see at once.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let namespace = wanted.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)
        .map_err(|error| Error::Client { server: server.clone(), reason: with_sources(&error) })?;
    Ok(Connected { client, server, namespace })
}

async fn config(wanted: &Connection) -> Result<Config, Error> {
    let paths = wanted.kubeconfig.clone().map_or_else(default_paths, |path| vec![path]);
    // As kubectl does, a file of the list that does not exist is passed over.
    let present: Vec<_> = paths.iter().filter(|path| path.try_exists().unwrap_or(true)).collect();
    if present.is_empty() {
        let in_a_pod = wanted.kubeconfig.is_none().then(Config::incluster).and_then(Result::ok);
        return in_a_pod.ok_or_else(|| Error::NoKubeconfig { tried: listed(&paths) });
    }
    let used = listed(&paths);
    let mut merged = Kubeconfig::default();
    for path in present {
        let unread = |error| Error::Kubeconfig { path: path.clone(), reason: reason(error) };
        merged = Kubeconfig::read_from(path).and_then(|next| merged.merge(next)).map_err(unread)?;
    }
    if let Some(context) = &wanted.context {
        has_context(&merged, context)?;
    }
    let options = KubeConfigOptions { context: wanted.context.clone(), ..KubeConfigOptions::default() };
    let unused = |error| Error::Context { used, reason: reason(error) };
    Config::from_custom_kubeconfig(merged, &options).await.map_err(unused)
}

/// The files that `KUBECONFIG` lists, or the one in the home directory.
fn default_paths() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<_> = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if listed.is_empty() {
        return std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect();
    }
    listed
}

fn has_context(kubeconfig: &Kubeconfig, context: &str) -> Result<(), Error> {
    let known: Vec<_> = kubeconfig.contexts.iter().map(|known| known.name.as_str()).collect();
    if known.contains(&context) {
        return Ok(());
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(Error::NoContext { context: context.to_owned(), known })
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    if paths.is_empty() { "home directory".to_owned() } else { paths.join(" or ") }
}

/// One line, where the library would draw a picture of the file.
fn reason(error: KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(cause, _) => cause.to_string(),
        KubeconfigError::Parse(fault) => fault.without_snippet().to_string(),
        KubeconfigError::CurrentContextNotSet => {
            "it has no current-context; name one with --context".to_owned()
        }
        other => with_sources(&other),
    }
}
