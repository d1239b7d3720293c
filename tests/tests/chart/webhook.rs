use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use serde_json::{Value, json};
use webservice_api::registration;
use webservice_api::rules::{Policy, example};

use crate::helm::{MODES, Release, strings};

const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

#[tokio::test]
async fn the_registration_is_that_of_the_code() {
    let endpoint = |path: &str| WebhookClientConfig {
        service: Some(ServiceReference {
            name: "r-webservice-operator-webhook".into(),
            namespace: "ns".into(),
            path: Some(path.into()),
            port: Some(443),
        }),
        ..WebhookClientConfig::default()
    };
    let name = "ns-r-webservice-operator-webhook";
    let expected = [
        serde_json::to_value(registration::mutating(name, &endpoint, None)).unwrap(),
        serde_json::to_value(registration::validating(name, &endpoint, None)).unwrap(),
    ];
    // The last one gives the CA, which no code knows.
    for mode in &MODES[..3] {
        let manifests = Release::named("r", "ns").set(mode).render().await;
        for (kind, expected) in KINDS.iter().zip(&expected) {
            let rendered = manifests.one(kind, name);
            assert_eq!(rendered["webhooks"], expected["webhooks"]);
        }
    }
}

#[tokio::test]
async fn only_webservices_are_sent_and_none_that_is_on_its_way_out() {
    let manifests = Release::new().render().await;
    for kind in KINDS {
        for webhook in manifests.one(kind, "")["webhooks"].as_array().unwrap() {
            let rules = webhook["rules"].as_array().unwrap();
            assert!(rules.iter().all(|rule| rule["apiGroups"] == json!(["apps.labhub.io"])), "{rules:?}");
            let condition = webhook["matchConditions"][0]["expression"].as_str().unwrap();
            assert!(condition.contains("oldObject.metadata.deletionTimestamp"), "{condition}");
        }
    }
}

#[tokio::test]
async fn failure_policy_and_timeout_can_be_changed() {
    let values = ["webhook.validating.failurePolicy=Ignore", "webhook.mutating.timeoutSeconds=9"];
    let manifests = Release::new().set(&values).render().await;
    assert_eq!(manifests.one(KINDS[1], "")["webhooks"][0]["failurePolicy"], "Ignore");
    assert_eq!(manifests.one(KINDS[0], "")["webhooks"][0]["timeoutSeconds"], 9);
}

#[tokio::test]
async fn writes_to_the_scale_are_checked_where_replicas_are_limited() {
    let resources = async |values: &[&str], kind: &str| -> Value {
        let manifests = Release::new().set(values).render().await;
        manifests.one(kind, "")["webhooks"][0]["rules"][0]["resources"].clone()
    };
    let limited = ["webhook.policy.maxReplicas.overall=5"];
    assert_eq!(resources(&[], KINDS[1]).await, json!(["webservices"]));
    assert_eq!(resources(&limited, KINDS[1]).await, json!(["webservices", "webservices/scale"]));
    assert_eq!(resources(&limited, KINDS[0]).await, json!(["webservices"]));
}

#[tokio::test]
async fn the_example_of_a_policy_is_one_that_the_webhook_reads() {
    let example = tempfile::NamedTempFile::new().unwrap();
    let policy: Value = serde_saphyr::from_str(example::POLICY).unwrap();
    std::fs::write(example.path(), json!({"webhook": {"policy": policy}}).to_string()).unwrap();
    let values = format!("--values={}", example.path().display());
    let manifests =
        Release::new().argument(&values).set(&["webhook.policy.levels.image-pinned=false"]).render().await;
    let mounted = manifests.one("ConfigMap", "-policy")["data"]["policy.yaml"].as_str().unwrap();
    assert!(mounted.contains("image-pinned: \"off\""), "YAML reads off as false: {mounted}");
    Policy::parse(mounted.as_bytes()).unwrap();
}

#[tokio::test]
async fn the_webhook_is_called_for_the_namespaces_that_are_served() {
    let manifests = Release::new().set(&["watchNamespaces={shop,pay}"]).render().await;
    for kind in KINDS {
        let selector = &manifests.one(kind, "")["webhooks"][0]["namespaceSelector"]["matchExpressions"][0];
        assert_eq!(selector["key"], "kubernetes.io/metadata.name");
        assert_eq!(strings(&selector["values"]), ["shop", "pay"]);
    }
}

#[tokio::test]
async fn the_controllers_own_account_is_known_to_the_webhook() {
    let manifests = Release::named("r", "ns").render().await;
    let webhook = &manifests.one("Deployment", "-webhook")["spec"]["template"]["spec"]["containers"][0];
    let controller =
        manifests.one("Deployment", "-controller")["spec"]["template"]["spec"]["serviceAccountName"].as_str();
    let user = format!("--exempt-user=system:serviceaccount:ns:{}", controller.unwrap());
    assert!(strings(&webhook["args"]).contains(&user.as_str()));
}
