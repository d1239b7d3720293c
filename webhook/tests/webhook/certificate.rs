//! The certificate changes while reviews go on.

use std::time::Duration;

use serde_json::json;

use crate::support::{MUTATE, Served, creation, der, leaf, soon, webservice};

/// Connects until the server presents `certificate`.
async fn await_certificate(served: &Served, certificate: &str) {
    let becoming = async {
        while served.connect().await.certificate != der(certificate) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the new certificate", becoming).await;
}

#[tokio::test]
async fn a_swap_reaches_new_connections_and_leaves_old_ones_alone() {
    let mut served = Served::start().await;
    let mut old = served.connect().await;
    let review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    for _ in 0..3 {
        let next = leaf(&served.ca);
        served.mount.put(&next);
        await_certificate(&served, next.certificate_pem()).await;
        assert_eq!(old.review(MUTATE, &review).await["allowed"], true);
    }
}

#[tokio::test]
async fn a_broken_swap_changes_nothing_but_the_error_counter() {
    let mut served = Served::start().await;
    let before = served.connect().await.certificate;
    served.mount.put_files("", "");
    let counted = async {
        while served.metrics().await.contains("certwatcher_read_certificate_errors_total 0\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("a counted error", counted).await;
    assert_eq!(served.connect().await.certificate, before);
    assert_eq!(served.probe("/readyz").await.0, 200);
}

#[tokio::test]
async fn no_review_fails_while_the_certificate_is_swapped() {
    let mut served = Served::start().await;
    let mut kept = served.connect().await;
    let review = creation(&webservice(&json!({"image": "nginx:1.27"})));
    for _ in 0..20 {
        let next = leaf(&served.ca);
        served.mount.put(&next);
        loop {
            let mut client = served.connect().await;
            assert_eq!(client.review(MUTATE, &review).await["allowed"], true);
            assert_eq!(kept.review(MUTATE, &review).await["allowed"], true);
            if client.certificate == der(next.certificate_pem()) {
                break;
            }
        }
    }
}
