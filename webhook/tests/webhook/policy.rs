//! The policy: checked at admission, followed as it changes, never silently missing.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{MUTATE, Served, VALIDATE, creation, eventually, replace, webservice};

/// A webhook with a policy in a file.
struct Ruled {
    served: Served,
    _directory: TempDir,
    file: PathBuf,
}

impl Ruled {
    async fn start(policy: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("policy.yaml");
        if let Some(policy) = policy {
            replace(&file, policy);
        }
        let served = Served::start_with(&["--policy", file.to_str().unwrap()]).await;
        Self { served, _directory: directory, file }
    }

    async fn validate(&self, spec: &Value) -> Value {
        self.served.connect().await.review(VALIDATE, &creation(&webservice(spec))).await
    }

    /// Whether three replicas are allowed.
    async fn allows_three(&self) -> bool {
        self.validate(&json!({"image": "nginx:1.27", "replicas": 3})).await["allowed"] == true
    }

    async fn has_counted_errors(&self) -> bool {
        let metrics = self.served.metrics().await;
        let line = |line: &&str| line.starts_with(r#"webservice_file_read_errors_total{file="policy"}"#);
        !metrics.lines().find(line).unwrap().ends_with(" 0")
    }
}

#[tokio::test]
async fn a_policy_is_enforced_and_a_change_of_it_is_followed() {
    let ruled = Ruled::start(Some("maxReplicas: {overall: 2}")).await;
    let refusal = ruled.validate(&json!({"image": "nginx:1.27", "replicas": 3})).await;
    assert_eq!(refusal["status"]["message"], "spec.replicas: must be at most 2, found 3");
    assert_eq!(refusal["status"]["details"]["causes"][0]["reason"], "FieldValueForbidden");

    replace(&ruled.file, "maxReplicas: {overall: 3}");
    eventually("the new policy", async || ruled.allows_three().await).await;
}

#[tokio::test]
async fn a_rule_that_warns_lets_pass_and_counts_what_it_would_deny() {
    let ruled = Ruled::start(Some("{maxReplicas: {overall: 2}, levels: {replicas-maximum: warn}}")).await;
    let response = ruled.validate(&json!({"image": "nginx:1.27", "replicas": 3})).await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["warnings"], json!(["spec.replicas: must be at most 2, found 3"]));
    let line = format!(
        r#"webservice_admission_decisions_total{{webhook="{VALIDATE}",outcome="would-deny",rule="replicas-maximum"}} 1"#
    );
    let metrics = ruled.served.metrics().await;
    assert!(metrics.contains(&line), "{metrics}");
}

#[tokio::test]
async fn a_change_that_cannot_be_used_leaves_the_last_good_policy_in_force() {
    let ruled = Ruled::start(Some("maxReplicas: {overall: 2}")).await;
    assert!(!ruled.has_counted_errors().await);
    replace(&ruled.file, "maxReplica: {overall: 3}");
    eventually("a counted error", async || ruled.has_counted_errors().await).await;
    assert!(!ruled.allows_three().await);
    assert_eq!(ruled.served.probe("/readyz").await.0, 200);
}

#[tokio::test]
async fn without_the_policy_that_was_asked_for_nothing_is_decided_until_it_comes() {
    let ruled = Ruled::start(None).await;
    let (status, text) = ruled.served.probe("/readyz?verbose").await;
    assert_eq!(status, 503);
    assert!(text.contains("[-]policy failed: failed to read ") && text.contains("policy.yaml"), "{text}");
    let review = creation(&webservice(&json!({"image": "nginx:1.27"}))).to_string();
    for path in [MUTATE, VALIDATE] {
        let reply = ruled.served.connect().await.post(path, review.clone()).await;
        assert_eq!((reply.status.as_u16(), &reply.headers["retry-after"]), (503, &"1".parse().unwrap()));
    }

    replace(&ruled.file, "{}");
    ruled.served.await_readyz(200).await;
    assert!(ruled.allows_three().await);
}

#[tokio::test]
async fn an_exempt_user_is_not_checked_where_the_spec_stays_as_it_is() {
    let served = Served::start_with(&["--exempt-user=controller"]).await;
    let object = webservice(&json!({"image": "nginx:1.27", "tier": "Old_Tier"}));
    let mut review = creation(&object);
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["oldObject"] = object;
    for (user, is_warned) in [("controller", false), ("somebody", true)] {
        review["request"]["userInfo"]["username"] = json!(user);
        let response = served.connect().await.review(VALIDATE, &review).await;
        assert_eq!(
            (&response["allowed"], response["warnings"].is_array()),
            (&json!(true), is_warned),
            "{user}"
        );
    }
}
