//! /readyz tells the truth about the certificate and the stop; /livez is not bothered by either.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use webservice_certs::Validity;

use crate::support::{Mount, NAME, Served, ca, leaf};

#[tokio::test]
async fn without_a_certificate_it_waits_and_is_ready_once_there_is_one() {
    let mut served = Served::start_from(ca(), Mount::empty(), &[]).await;
    assert_eq!(served.probe("/livez").await, (200, "ok".to_owned()));
    let (status, text) = served.probe("/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("[-]certificate failed"), "{text}");
    assert!(served.try_connect().await.is_err());

    let leaf = leaf(&served.ca);
    served.mount.put(&leaf);
    served.await_readyz(200).await;
    served.connect().await;
}

#[tokio::test]
async fn a_broken_certificate_is_waited_out_as_well() {
    let mut mount = Mount::empty();
    mount.put_files("garbage", "garbage");
    let mut served = Served::start_from(ca(), mount, &[]).await;
    assert_eq!(served.probe("/readyz").await.0, 503);
    let leaf = leaf(&served.ca);
    served.mount.put(&leaf);
    served.await_readyz(200).await;
}

#[tokio::test]
async fn with_a_certificate_it_is_ready_from_the_first_moment() {
    let served = Served::start().await;
    assert_eq!(served.probe("/readyz").await, (200, "ok".to_owned()));
    let verbose = "[+]certificate ok\n[+]not-draining ok\nreadyz check passed\n";
    assert_eq!(served.probe("/readyz?verbose").await, (200, verbose.to_owned()));
    assert_eq!(served.probe("/elsewhere").await.0, 404);
}

#[tokio::test]
async fn an_expired_certificate_ends_readiness_until_it_is_renewed() {
    let ca = ca();
    let mut mount = Mount::empty();
    let short = Validity::lasting(SignedDuration::from_secs(8), Timestamp::now());
    mount.put(&ca.issue(&[NAME], short).unwrap());
    let mut served = Served::start_from(ca, mount, &[]).await;
    assert_eq!(served.probe("/readyz").await.0, 200);
    let text = served.await_readyz(503).await;
    assert!(text.contains("the certificate expired at"), "{text}");
    assert_eq!(served.probe("/livez").await.0, 200);
    let metrics = served.metrics().await;
    let expiry = format!("webservice_certificate_expiry_timestamp_seconds {}", short.not_after.as_second());
    assert!(metrics.contains(&expiry), "{metrics}");

    let leaf = leaf(&served.ca);
    served.mount.put(&leaf);
    served.await_readyz(200).await;
}

#[tokio::test]
async fn readiness_ends_at_once_when_the_stop_begins() {
    let served = Served::start_with(&["--shutdown-lame-duck=1h"]).await;
    served.shutdown.cancel();
    let text = served.await_readyz(503).await;
    assert!(text.contains("[-]not-draining failed: the process is shutting down"), "{text}");
    assert!(text.contains("[+]certificate ok"), "{text}");
    assert_eq!(served.probe("/livez").await.0, 200);
    tokio::time::timeout(Duration::from_millis(50), served.task).await.unwrap_err();
}
