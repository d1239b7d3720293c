//! What a request asks for, in the words of the API server's audit log.

use std::fmt;

use http::{Method, Uri};
use serde_json::Value;

/// A request of the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiRequest {
    /// Such as `create` or `watch`.
    pub verb: &'static str,
    /// Such as `webservices/status`; empty for what is no resource.
    pub resource: String,
    /// The object, which a creation names in its body; empty for collections.
    pub name: String,
}

impl ApiRequest {
    /// Reads a request: `/api/VERSION/…` and `/apis/GROUP/VERSION/…`, then `[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]`,
    /// see <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris>.
    #[must_use]
    pub fn read(method: &Method, uri: &Uri, body: &[u8]) -> Self {
        let mut path = uri.path().trim_matches('/').split('/');
        let skipped = match path.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return Self { verb: verb(method, uri, true), ..Self::default() },
        };
        let rest: Vec<_> = path.skip(skipped).collect();
        let rest = match rest.as_slice() {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let (resource, name, subresource) = match rest {
            [resource, name, subresource, ..] => (*resource, *name, Some(*subresource)),
            [resource, name] => (*resource, *name, None),
            [resource] => (*resource, "", None),
            [] => ("", "", None),
        };
        Self {
            verb: verb(method, uri, !name.is_empty()),
            resource: [Some(resource), subresource].into_iter().flatten().collect::<Vec<_>>().join("/"),
            name: if name.is_empty() { name_in(body) } else { name.to_owned() },
        }
    }
}

fn verb(method: &Method, uri: &Uri, is_single: bool) -> &'static str {
    let is_watch = uri.query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
    match (method.as_str(), is_single) {
        ("GET", _) if is_watch => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "other",
    }
}

fn name_in(body: &[u8]) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

impl fmt::Display for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, name } = self;
        write!(f, "{verb} {resource} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, uri: &str, body: &str) -> String {
        ApiRequest::read(method, &uri.parse().unwrap(), body.as_bytes()).to_string()
    }

    #[test]
    fn objects_collections_and_subresources_are_told_apart() {
        let webservices = "/apis/apps.labhub.io/v1/namespaces/shop/webservices";
        assert_eq!(read(&Method::GET, &format!("{webservices}?limit=500"), ""), "list webservices ");
        assert_eq!(read(&Method::GET, &format!("{webservices}?&watch=true"), ""), "watch webservices ");
        assert_eq!(
            read(&Method::PATCH, &format!("{webservices}/a/status?force=true"), ""),
            "patch webservices/status a"
        );
        assert_eq!(read(&Method::GET, "/api/v1/configmaps", ""), "list configmaps ");
        assert_eq!(read(&Method::DELETE, "/api/v1/namespaces/shop", ""), "delete namespaces shop");
        assert_eq!(read(&Method::GET, "/version", ""), "get  ");
    }

    #[test]
    fn a_creation_is_named_by_its_body() {
        let body = r#"{"metadata": {"name": "a-desired"}}"#;
        assert_eq!(
            read(&Method::POST, "/api/v1/namespaces/shop/configmaps?fieldManager=x", body),
            "create configmaps a-desired"
        );
    }
}
