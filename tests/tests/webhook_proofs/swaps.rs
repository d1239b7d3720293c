//! Certificates change while reviews go on.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::Mutex;
use webservice_tests::bed::eventually;
use webservice_tests::prove::{Connection, Findings, Load, Mount, Replica, Tally, Trust, full};

use super::{authority, leaf};

/// Of either kind of caller.
const CALLERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);
/// Every so many swaps the authority changes too.
const AUTHORITY_LIVES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_certificates_and_authorities_are_swapped() -> Result<()> {
    let swaps = full(10, 100);
    let mut ca = authority()?;
    let mut mount = Mount::of(&leaf(&ca)?)?;
    let flags: &[&str] = full(&["--cert-interval=20ms"], &[]);
    let replica = Replica::start(&mount, flags).await?;
    let address = replica.address();
    let trust = Arc::new(Trust::in_bundle(ca.certificate_pem())?);
    let (kept, opened) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    let mut load = Load::new();
    for _ in 0..CALLERS {
        let connection = Arc::new(Mutex::new(Connection::open(address, &trust).await?));
        let tally = Arc::clone(&kept);
        load.add(PAUSE, move || {
            let (connection, tally) = (Arc::clone(&connection), Arc::clone(&tally));
            async move { _ = tally.count(connection.lock().await.call().await) }
        });
        let (trust, tally) = (Arc::clone(&trust), Arc::clone(&opened));
        load.add(PAUSE, move || {
            let (trust, tally) = (Arc::clone(&trust), Arc::clone(&tally));
            async move { _ = tally.count(call_once(address, &trust).await) }
        });
    }

    let mut findings = Findings::of("certificate swaps under load");
    for swap in 1..=swaps {
        if swap % AUTHORITY_LIVES == 0 {
            let next = authority()?;
            // As it is done in a cluster: the new authority is trusted before anything is signed by it.
            trust.change_to(&format!("{}{}", ca.certificate_pem(), next.certificate_pem())).await?;
            ca = next;
        }
        let next = leaf(&ca)?;
        mount.put(&next)?;
        let expected = CertificateDer::from_pem_slice(next.certificate_pem().as_bytes())?;
        eventually("the new certificate is served", async || match Connection::open(address, &trust).await {
            Ok(connection) if connection.certificate == expected => Ok(()),
            Ok(_) => Err("the old one is".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        })
        .await;
        findings.progress(swap, swaps, &opened);
    }
    load.finish().await?;
    findings.none_failed("calls over kept connections", &kept);
    findings.none_failed("calls over new connections", &opened);
    findings.conclude();
    Ok(())
}

async fn call_once(address: std::net::SocketAddr, trust: &Trust) -> Result<()> {
    Connection::open(address, trust).await?.call().await
}
