use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionSpec;
use serde_json::Value;
use webservice_api::crd::crd;

use webservice_tests::helm::chart;

use crate::helm::{EVERYTHING, MODES, Release, VERSIONS, helm};

#[tokio::test]
async fn lint_has_nothing_to_say() {
    let chart = chart().display().to_string();
    for version in VERSIONS {
        for values in ["values.yaml", "values-ha.yaml", "values-staging.yaml"] {
            let file = format!("--values={chart}/{values}");
            let said = helm(version, &["lint", "--strict", &chart, &file]).await;
            let is_silent = said.as_ref().is_ok_and(|text| !text.contains("[WARNING]"));
            assert!(is_silent, "{} {values}: {said:?}", version.name);
        }
    }
}

#[tokio::test]
async fn two_renders_are_the_same_to_the_byte() {
    for mode in MODES {
        let release = Release::new().set(EVERYTHING).set(mode);
        assert_eq!(release.text().await, release.text().await);
    }
}

#[tokio::test]
async fn both_versions_of_helm_render_the_same_objects() {
    for mode in MODES {
        let release = Release::new().set(EVERYTHING).set(mode);
        let [three, four] = VERSIONS.map(|version| release.try_text(version));
        let objects = |text: String| {
            let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            objects.sort_by_key(ToString::to_string);
            objects
        };
        assert_eq!(objects(three.await.unwrap()), objects(four.await.unwrap()));
    }
}

#[tokio::test]
async fn the_crd_is_the_generated_one_and_stays_when_the_release_goes() {
    let manifests = Release::new().render().await;
    let rendered = manifests.one("CustomResourceDefinition", "");
    // As types: JSON tells 0 from 0.0.
    let spec: CustomResourceDefinitionSpec = serde_json::from_value(rendered["spec"].clone()).unwrap();
    assert_eq!(spec, crd().unwrap().spec);
    assert_eq!(rendered["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
}

#[tokio::test]
async fn the_crd_goes_with_the_release_or_is_left_out_if_asked_for() {
    let manifests = Release::new().set(&["crds.keep=false"]).render().await;
    assert_eq!(manifests.one("CustomResourceDefinition", "")["metadata"].get("annotations"), None);
    let manifests = Release::new().set(&["crds.enabled=false"]).render().await;
    assert!(manifests.of("CustomResourceDefinition").is_empty());
}

#[tokio::test]
async fn the_removal_is_bounded_in_time_and_can_be_left_out() {
    let manifests = Release::new().set(&["uninstall.timeoutSeconds=7"]).render().await;
    let job = manifests.one("Job", "-uninstall");
    assert_eq!(job["metadata"]["annotations"]["helm.sh/hook"], "pre-delete");
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 37);
    let manifests = Release::new().set(&["uninstall.enabled=false"]).render().await;
    assert!(!manifests.all().iter().any(|object| object.to_string().contains("pre-delete")));
}
