use serde_json::json;

use crate::helm::{EVERYTHING, MODES, Release, strings};

#[tokio::test]
async fn every_pod_fits_the_restricted_standard() {
    for mode in MODES {
        let manifests = Release::new().set(EVERYTHING).set(mode).render().await;
        assert_eq!(manifests.pods().len(), 4, "controller, webhook, uninstall, test");
        for (name, pod) in manifests.pods() {
            let security = &pod["securityContext"];
            assert_eq!(security["runAsNonRoot"], true, "{name}");
            assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault", "{name}");
            for container in pod["containers"].as_array().unwrap() {
                let security = &container["securityContext"];
                assert_eq!(security["capabilities"]["drop"], json!(["ALL"]), "{name}");
                assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
                assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn a_stop_is_never_cut_short() {
    let values = ["webhook.shutdownLameDuckSeconds=20", "webhook.shutdownGraceSeconds=30"];
    let manifests = Release::new().set(&values).render().await;
    let pod = &manifests.one("Deployment", "-webhook")["spec"]["template"]["spec"];
    let args = strings(&pod["containers"][0]["args"]);
    assert!(args.contains(&"--shutdown-lame-duck=20s") && args.contains(&"--shutdown-grace=30s"), "{args:?}");
    assert!(pod["terminationGracePeriodSeconds"].as_i64().unwrap() > 50);
}

#[tokio::test]
async fn no_budget_blocks_a_drain() {
    for replicas in ["webhook.replicas=1", "webhook.replicas=2"] {
        let manifests = Release::new().set(&[replicas]).render().await;
        let budgets = manifests.of("PodDisruptionBudget");
        assert_eq!(budgets.len(), 2);
        for budget in budgets {
            assert_eq!(budget["spec"].get("minAvailable"), None);
            assert_eq!(budget["spec"]["maxUnavailable"], 1);
            assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
        }
    }
}

#[tokio::test]
async fn webhooks_are_two_and_spread() {
    let manifests = Release::new().render().await;
    let spec = &manifests.one("Deployment", "-webhook")["spec"];
    assert_eq!(spec["replicas"], 2);
    let spread = spec["template"]["spec"]["topologySpreadConstraints"].as_array().unwrap();
    assert_eq!(spread[0]["topologyKey"], "kubernetes.io/hostname");
    let labels = spec["template"]["metadata"]["labels"].as_object().unwrap();
    let selector = spread[0]["labelSelector"]["matchLabels"].as_object().unwrap();
    assert!(selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
}

#[tokio::test]
async fn whoever_scales_owns_the_number_of_replicas() {
    let manifests = Release::new().set(&["webhook.autoscaling.enabled=true"]).render().await;
    assert_eq!(manifests.one("Deployment", "-webhook")["spec"].get("replicas"), None);
    assert_eq!(manifests.of("HorizontalPodAutoscaler").len(), 1);
}

#[tokio::test]
async fn a_changed_policy_restarts_no_pod() {
    let pods = async |policy: &str| {
        let manifests = Release::new().set(&[policy]).render().await;
        manifests.one("Deployment", "-webhook")["spec"]["template"].clone()
    };
    assert_eq!(
        pods("webhook.policy.allowedTiers={dev}").await,
        pods("webhook.policy.allowedTiers={prod}").await
    );
}
