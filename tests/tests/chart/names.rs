use std::collections::BTreeSet;

use serde_json::Value;

use crate::helm::{EVERYTHING, MODES, Manifests, Release, name, strings};

/// The longest that Helm and Kubernetes allow.
fn longest() -> (String, String) {
    (format!("{}-{}", "r".repeat(25), "e".repeat(27)), format!("{}-{}", "n".repeat(31), "s".repeat(31)))
}

fn assert_names_fit(manifests: &Manifests) {
    for object in manifests.all().iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
        let name = name(object);
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = name.len() <= 63 && name.chars().all(is_label) && !name.ends_with('-');
        assert!(fits && name.starts_with(|c: char| c.is_ascii_lowercase()), "{} {name}", object["kind"]);
        for (_, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
            assert!(value.as_str().unwrap().len() <= 63, "{value}");
        }
    }
}

#[tokio::test]
async fn names_fit_whatever_the_release_is_called() {
    let (release, namespace) = longest();
    for name in [release.as_str(), "r", "0.1", "a.b", "webservice-operator", "my-desired"] {
        for mode in MODES {
            assert_names_fit(&Release::named(name, &namespace).set(EVERYTHING).set(mode).render().await);
        }
    }
}

/// Every name of something that an object holds.
fn references(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => {
            let named = ["namespace", "secretName", "name"].map(|key| fields.get(key)).into_iter().flatten();
            named.chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn a_name_that_looks_like_a_number_stays_a_name() {
    let values = [
        "controller.metrics.tlsSecretName=1e3",
        "webhook.clientCertificate.configMapName=1e4",
        "tls.mode=cert-manager",
        "tls.certManager.caSecretName=0x7",
    ];
    let manifests = Release::named("r", "2024").set(EVERYTHING).set(&values).render().await;
    let named: Vec<_> = manifests.all().iter().flat_map(references).collect();
    assert!(named.contains(&&Value::from("2024")) && named.contains(&&Value::from("1e3")), "{named:?}");
    assert!(!named.iter().any(|name| name.is_number() || name.is_boolean()), "{named:?}");
}

#[tokio::test]
async fn long_names_that_begin_alike_are_kept_apart() {
    let (one, namespace) = longest();
    let other = format!("{}x", &one[..one.len() - 1]);
    let names = async |release: &str| {
        let manifests = Release::named(release, &namespace).render().await;
        let named = |object: &Value| (object["kind"].to_string(), name(object).to_owned());
        manifests.all().iter().map(named).collect::<BTreeSet<_>>()
    };
    let common: Vec<_> = names(&one).await.intersection(&names(&other).await).cloned().collect();
    assert_eq!(common.len(), 1, "{common:?}: the CRD alone");
}

#[tokio::test]
async fn two_releases_of_one_name_share_nothing_in_the_cluster() {
    let values = ["crds.enabled=false"];
    let one = Release::named("r", "ns1").set(EVERYTHING).set(&values).render().await;
    let other = Release::named("r", "ns2").set(EVERYTHING).set(&values).render().await;
    let in_the_cluster = |manifests: &Manifests| -> BTreeSet<String> {
        let objects = manifests.all().iter().filter(|object| object["metadata"].get("namespace").is_none());
        objects.map(|object| format!("{} {}", object["kind"], name(object))).collect()
    };
    let (one, other) = (in_the_cluster(&one), in_the_cluster(&other));
    assert!(one.len() > 4 && one.is_disjoint(&other), "{one:?} {other:?}");
}

#[tokio::test]
async fn no_config_map_can_be_the_child_of_a_webservice() {
    for release in ["r", "my-desired", "webservice-operator-desired"] {
        let manifests = Release::named(release, "ns").set(EVERYTHING).set(MODES[3]).render().await;
        let config_maps = manifests.of("ConfigMap");
        assert!(config_maps.len() > 1 && config_maps.iter().all(|map| !name(map).ends_with("-desired")));
    }
}

#[tokio::test]
async fn certificate_registration_and_controller_agree_on_the_service() {
    let (release, namespace) = longest();
    let release = || Release::named(&release, &namespace);
    let manifests = release().set(MODES[1]).render().await;
    let service = name(manifests.one("Service", "-webhook"));
    let leaf = manifests.one("Certificate", "-tls");
    assert_eq!(strings(&leaf["spec"]["dnsNames"]), [format!("{service}.{namespace}.svc")]);
    assert_eq!(leaf["spec"].get("commonName"), None, "it does not fit into 64 bytes");
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let called = &manifests.one(kind, "")["webhooks"][0]["clientConfig"]["service"];
        assert_eq!((&called["name"], &called["namespace"]), (&service.into(), &namespace.as_str().into()));
    }
    let manifests = release().render().await;
    let controller = &manifests.one("Deployment", "-controller")["spec"]["template"]["spec"]["containers"][0];
    assert!(strings(&controller["args"]).contains(&format!("--webhook-service={service}").as_str()));
}
