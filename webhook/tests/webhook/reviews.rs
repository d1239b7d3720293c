//! Ordinary reviews.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{MUTATE, Served, VALIDATE, creation, webservice};

fn patch(response: &Value) -> Value {
    serde_json::from_slice(&STANDARD.decode(response["patch"].as_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_minimal_webservice_is_completed() {
    let served = Served::start().await;
    let review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    let response = served.connect().await.review(MUTATE, &review).await;
    assert_eq!((&response["uid"], &response["allowed"]), (&review["request"]["uid"], &json!(true)));
    assert_eq!(
        patch(&response),
        json!([
            {"op": "add", "path": "/spec/replicas", "value": 1},
            {"op": "add", "path": "/spec/tier", "value": "dev"},
            {"op": "add", "path": "/metadata/finalizers", "value": ["webservice.labhub.io/cleanup"]},
        ])
    );
}

#[tokio::test]
async fn what_is_complete_gets_no_patch() {
    let served = Served::start().await;
    let mut object = webservice(&json!({"image": "nginx:1.27", "replicas": 3, "tier": "dev"}));
    object["metadata"]["finalizers"] = json!(["webservice.labhub.io/cleanup"]);
    let response = served.connect().await.review(MUTATE, &creation(&object)).await;
    assert_eq!(
        response,
        json!({"uid": response["uid"], "allowed": true, "auditAnnotations": {"decision": "allowed"}})
    );
}

#[tokio::test]
async fn every_mistake_is_named_in_one_refusal() {
    let served = Served::start().await;
    let review = creation(&webservice(&json!({"replicas": "two", "tier": "Not A Label"})));
    let response = served.connect().await.review(VALIDATE, &review).await;
    assert_eq!(response["allowed"], json!(false));
    let status = &response["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    assert_eq!(status["details"]["name"], "checkout");
    let fields: Vec<_> =
        status["details"]["causes"].as_array().unwrap().iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, ["spec.image", "spec.replicas", "spec.tier"]);
    for field in ["spec.image", "spec.replicas", "spec.tier"] {
        assert!(status["message"].as_str().unwrap().contains(field), "{status}");
    }
}

#[tokio::test]
async fn one_connection_serves_many_reviews_and_the_metrics_count_them() {
    let served = Served::start().await;
    let mut client = served.connect().await;
    for _ in 0..3 {
        client.review(MUTATE, &creation(&webservice(&json!({"image": "nginx:1.27"})))).await;
        client.review(VALIDATE, &creation(&webservice(&json!({})))).await;
    }
    let metrics = served.metrics().await;
    for line in [
        format!(r#"controller_runtime_webhook_requests_total{{webhook="{MUTATE}",code="200"}} 3"#),
        format!(r#"controller_runtime_webhook_requests_total{{webhook="{VALIDATE}",code="200"}} 3"#),
        format!(r#"controller_runtime_webhook_latency_seconds_count{{webhook="{VALIDATE}"}} 3"#),
        format!(r#"controller_runtime_webhook_requests_in_flight{{webhook="{VALIDATE}"}} 0"#),
        format!(
            r#"webservice_admission_decisions_total{{webhook="{VALIDATE}",outcome="denied",rule="image-required"}} 3"#
        ),
        format!(
            r#"webservice_admission_decisions_total{{webhook="{MUTATE}",outcome="defaulted",rule="spec.tier"}} 3"#
        ),
    ] {
        assert!(metrics.contains(&line), "{line} is missing in\n{metrics}");
    }
}
