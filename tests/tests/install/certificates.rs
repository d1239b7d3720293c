//! How leaf and CA are replaced in each TLS mode: what docs/certificates.md has people do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use webservice_certs::{Bundle, CERTIFICATE_FILE, Ca, KEY_FILE, Validity};
use webservice_tests::bed::{OPERATOR, Objects, RELEASE, Site, name, within};

/// The name of a user's own Secret.
const OWN: &str = "own-pki";

pub(crate) fn ca_secret() -> String {
    format!("{RELEASE}-ca")
}

pub(crate) fn leaf_secret() -> String {
    format!("{RELEASE}-tls")
}

/// Waits until a Secret holds another certificate than `before`.
async fn await_another(site: &Site, secret: &str, before: &str) {
    within(Site::PATIENCE, "the Secret holds another certificate", async || {
        match site.issued(secret).await {
            now if now == before => Err(now),
            _ => Ok(()),
        }
    })
    .await;
}

fn decoded(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap()
}

/// The `caBundle` of every webhook.
async fn bundles(site: &Site) -> Vec<Bundle> {
    let registrations = [
        site.objects::<MutatingWebhookConfiguration>("").list().await,
        site.objects::<ValidatingWebhookConfiguration>("").list().await,
    ]
    .concat();
    let ours = registrations.iter().filter(|one| name(one).starts_with(OPERATOR));
    ours.map(|one| Bundle::readable(&decoded(&one["webhooks"][0]["clientConfig"]["caBundle"]))).collect()
}

/// Waits until every `caBundle` holds all CAs of `pem`.
async fn await_trusted(site: &Site, pem: &[u8]) {
    let wanted = Bundle::readable(pem);
    assert!(!wanted.certificates().is_empty());
    within(Site::PATIENCE, "every caBundle holds the CA", async || {
        let seen = bundles(site).await;
        if seen.len() == 2 && seen.iter().all(|bundle| bundle.holds(&wanted)) {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await;
}

/// A mode and what is kept of it.
pub(crate) enum Mode {
    SelfManaged,
    CertManager,
    Secret(Box<OwnPki>),
}

impl Mode {
    /// Prepares what must be there before the release; gives the values of the mode.
    pub(crate) async fn prepare(&self, site: &Site) -> Vec<&'static str> {
        match self {
            // A single API server notices a new CA at once, and a busy one a little later.
            Self::SelfManaged => {
                vec!["--set=tls.mode=self-managed", "--set=controller.extraArgs={--ca-overlap=15s}"]
            }
            Self::CertManager => {
                site.start_cert_manager().await;
                vec!["--set=tls.mode=cert-manager"]
            }
            Self::Secret(pki) => {
                pki.store(site).await;
                vec!["--set=tls.mode=secret,tls.secret.name=own-pki"]
            }
        }
    }

    /// The Secret that the webhook serves from.
    pub(crate) fn secret(&self) -> String {
        match self {
            Self::Secret(_) => OWN.to_owned(),
            Self::SelfManaged | Self::CertManager => leaf_secret(),
        }
    }

    /// Replaces the leaf, and waits until it is presented.
    pub(crate) async fn rotate_leaf(&mut self, site: &Site) {
        let before = site.issued(&self.secret()).await;
        match self {
            Self::SelfManaged => ask(site, &leaf_secret(), "leaf").await,
            Self::CertManager => renew(site, &leaf_secret()).await,
            Self::Secret(pki) => pki.change_leaf(site).await,
        }
        await_another(site, &self.secret(), &before).await;
        site.await_presented(&self.secret()).await;
    }

    /// Replaces the CA, and waits until a leaf of the new one is presented.
    pub(crate) async fn rotate_ca(&mut self, site: &Site) {
        let before = site.issued(&self.secret()).await;
        match self {
            Self::SelfManaged => ask(site, &ca_secret(), "ca").await,
            Self::CertManager => {
                let ca = site.issued(&ca_secret()).await;
                renew(site, &ca_secret()).await;
                await_another(site, &ca_secret(), &ca).await;
                let renewed = site.secrets().get(&ca_secret()).await;
                await_trusted(site, &decoded(&renewed["data"]["ca.crt"])).await;
                renew(site, &leaf_secret()).await;
            }
            Self::Secret(pki) => pki.change_ca(site).await,
        }
        await_another(site, &self.secret(), &before).await;
        site.await_presented(&self.secret()).await;
    }
}

/// Asks the controller for a new leaf or CA.
async fn ask(site: &Site, secret: &str, what: &str) {
    let rotate = json!({"metadata": {"annotations": {"webservice.labhub.io/rotate": what}}});
    site.secrets().merge(secret, rotate).await;
}

/// What `cmctl renew` does.
async fn renew(site: &Site, certificate: &str) {
    let certificates = certificates(site);
    let object = certificates.await_that(certificate, "is settled", is_settled).await;
    let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "Issuing");
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    conditions.push(json!({
        "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a person",
        "lastTransitionTime": now, "observedGeneration": object["metadata"]["generation"],
    }));
    certificates.merge_status(certificate, json!({"status": {"conditions": conditions}})).await;
}

fn is_settled(certificate: &Value) -> bool {
    let is = |kind: &str| {
        let conditions = certificate["status"]["conditions"].as_array().into_iter().flatten();
        conditions.clone().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    is("Ready") && !is("Issuing")
}

fn certificates(site: &Site) -> Objects {
    let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate");
    site.objects_of(ApiResource::from_gvk(&kind), OPERATOR)
}

/// A PKI of the user's own.
pub(crate) struct OwnPki {
    authority: Ca,
    /// Of the authorities before this one.
    others: String,
}

impl OwnPki {
    pub(crate) fn new() -> Self {
        Self { authority: authority(), others: String::new() }
    }

    async fn store(&self, site: &Site) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": OWN}, "type": "kubernetes.io/tls",
            "stringData": self.leaf(),
        });
        site.secrets().create(secret).await;
    }

    fn trusted(&self) -> String {
        format!("{}{}", self.authority.certificate_pem(), self.others)
    }

    fn leaf(&self) -> Value {
        let host = format!("{RELEASE}-webhook.{OPERATOR}.svc");
        let leaf = self.authority.issue(&[&host], validity()).unwrap();
        json!({
            CERTIFICATE_FILE: leaf.certificate_pem(), KEY_FILE: leaf.key_pem(), "ca.crt": self.trusted(),
        })
    }

    async fn change_leaf(&self, site: &Site) {
        site.secrets().merge(OWN, json!({"stringData": self.leaf()})).await;
    }

    /// First trust both, then serve the new one, then forget the old one.
    async fn change_ca(&mut self, site: &Site) {
        let old = self.authority.certificate_pem().to_owned();
        let new = authority();
        let both = format!("{}{old}", new.certificate_pem());
        site.secrets().merge(OWN, json!({"stringData": {"ca.crt": both}})).await;
        await_trusted(site, both.as_bytes()).await;
        *self = Self { authority: new, others: old };
        self.change_leaf(site).await;
        site.await_presented(OWN).await;
        self.others.clear();
        site.secrets().merge(OWN, json!({"stringData": {"ca.crt": self.trusted()}})).await;
    }
}

fn authority() -> Ca {
    Ca::create(validity()).unwrap()
}

fn validity() -> Validity {
    Validity::lasting(SignedDuration::from_hours(24), Timestamp::now())
}
