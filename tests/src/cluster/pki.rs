//! The certificates of a cluster: one authority signs for every component, and kubeconfigs carry the result.
//! Common names and organisations are those that Kubernetes' RBAC knows, see
//! <https://kubernetes.io/docs/setup/best-practices/certificates/>.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use super::files::write;

/// Clusters live for hours. A year is long enough for one that somebody forgets, and short enough not to matter.
const VALIDITY: Duration = Duration::days(365);
/// Clocks of machines that share a disk may differ.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// Whom a certificate speaks for: the user name and the group in RBAC's eyes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    common_name: String,
    organization: Option<String>,
}

impl Subject {
    /// A user without a group.
    pub fn user(name: impl Into<String>) -> Self {
        Self { common_name: name.into(), organization: None }
    }

    /// The same user in a group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.organization = Some(group.into());
        self
    }

    /// The administrator: RBAC and priority and fairness do not apply to `system:masters`, so never measure with it.
    #[must_use]
    pub fn admin() -> Self {
        Self::user("admin").in_group("system:masters")
    }

    /// The kubelet of one node.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self::user(format!("system:node:{name}")).in_group("system:nodes")
    }
}

/// A certificate and its private key, both in PEM.
#[derive(Clone)]
pub struct KeyPairPem {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

/// Where a certificate and its key lie.
#[derive(Clone, Debug)]
pub struct KeyPairFiles {
    /// `NAME.crt`
    pub certificate: PathBuf,
    /// `NAME.key`
    pub key: PathBuf,
}

/// The cluster's certificate authority, kept in `pki/` below the cluster's directory.
pub struct Authority {
    directory: PathBuf,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new authority and its files `ca.crt` and `ca.key`.
    pub fn create(cluster_directory: &Path) -> Result<Self> {
        let directory = cluster_directory.join("pki");
        fs::create_dir_all(&directory)
            .with_context(|| format!("failed to create {}", directory.display()))?;
        let mut params = params(&Subject::user("webservice-operator test cluster"), &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        write(&directory.join("ca.crt"), certificate.as_bytes())?;
        write(&directory.join("ca.key"), key.serialize_pem().as_bytes())?;
        Ok(Self { directory, certificate, issuer: Issuer::new(params, key) })
    }

    /// Opens the authority of a cluster that exists.
    pub fn open(cluster_directory: &Path) -> Result<Self> {
        let directory = cluster_directory.join("pki");
        let certificate = read(&directory.join("ca.crt"))?;
        let key = KeyPair::from_pem(&read(&directory.join("ca.key"))?)
            .with_context(|| format!("failed to parse {}", directory.join("ca.key").display()))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key)
            .with_context(|| format!("failed to parse {}", directory.join("ca.crt").display()))?;
        Ok(Self { directory, certificate, issuer })
    }

    /// The authority's own certificate in PEM: what clients trust.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The files of the authority itself.
    #[must_use]
    pub fn files(&self) -> KeyPairFiles {
        self.pair_files("ca")
    }

    /// Signs a certificate for clients and servers alike. `names` are the DNS names and IP addresses it serves under.
    pub fn issue(&self, subject: &Subject, names: &[&str]) -> Result<KeyPairPem> {
        let mut params = params(subject, names)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(KeyPairPem { certificate, key: key.serialize_pem() })
    }

    /// Signs a certificate and writes it to `pki/NAME.crt` and `pki/NAME.key`.
    pub fn issue_files(&self, name: &str, subject: &Subject, names: &[&str]) -> Result<KeyPairFiles> {
        let pair = self.issue(subject, names)?;
        let files = self.pair_files(name);
        write(&files.certificate, pair.certificate.as_bytes())?;
        write(&files.key, pair.key.as_bytes())?;
        Ok(files)
    }

    /// Signs a client certificate and writes `NAME.kubeconfig` for it, beside the keys.
    pub fn issue_kubeconfig(&self, name: &str, subject: &Subject, server: &str) -> Result<PathBuf> {
        let kubeconfig = self.kubeconfig(server, &Credentials::Certificate(self.issue(subject, &[])?));
        let path = self.directory.join(format!("{name}.kubeconfig"));
        write(&path, kubeconfig.as_bytes())?;
        Ok(path)
    }

    /// A kubeconfig, complete in itself, for any credentials.
    #[must_use]
    pub fn kubeconfig(&self, server: &str, credentials: &Credentials) -> String {
        kubeconfig(server, &self.certificate, credentials)
    }

    /// Makes the key that signs service-account tokens: the private half for the controller manager and the API server,
    /// the public half for the API server to verify with. `certificate` of the result is that public key.
    pub fn service_account_key(&self) -> Result<KeyPairFiles> {
        let key = KeyPair::generate()?;
        let files = KeyPairFiles {
            certificate: self.directory.join("service-account.pub"),
            key: self.directory.join("service-account.key"),
        };
        write(&files.certificate, key.public_key_pem().as_bytes())?;
        write(&files.key, key.serialize_pem().as_bytes())?;
        Ok(files)
    }

    fn pair_files(&self, name: &str) -> KeyPairFiles {
        KeyPairFiles {
            certificate: self.directory.join(format!("{name}.crt")),
            key: self.directory.join(format!("{name}.key")),
        }
    }
}

/// How a kubeconfig's user proves who it is.
pub enum Credentials {
    /// A client certificate.
    Certificate(KeyPairPem),
    /// A bearer token, such as a service account's.
    Token(String),
}

fn params(subject: &Subject, names: &[&str]) -> Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, &subject.common_name);
    if let Some(organization) = &subject.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    let now = OffsetDateTime::now_utc();
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + VALIDITY;
    Ok(params)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// The format of <https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/>. Every value is a URL, base64 or a
/// token, none of which needs more than quotes.
fn kubeconfig(server: &str, authority: &str, credentials: &Credentials) -> String {
    let authority = BASE64.encode(authority);
    let user = match credentials {
        Credentials::Certificate(pair) => format!(
            "{{client-certificate-data: {}, client-key-data: {}}}",
            BASE64.encode(&pair.certificate),
            BASE64.encode(&pair.key)
        ),
        Credentials::Token(token) => format!("{{token: {token:?}}}"),
    };
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster: {{server: {server:?}, certificate-authority-data: {authority}}}
users:
- name: user
  user: {user}
contexts:
- name: context
  context: {{cluster: cluster, user: user}}
current-context: context
"
    )
}

#[cfg(test)]
mod tests {
    use kube::config::{KubeConfigOptions, Kubeconfig};

    use super::*;

    fn authority() -> (tempfile::TempDir, Authority) {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::create(directory.path()).unwrap();
        (directory, authority)
    }

    async fn config(text: &str) -> kube::Config {
        let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
    }

    #[test]
    fn an_authority_that_is_opened_again_signs_with_the_same_key() {
        let (directory, created) = authority();
        let opened = Authority::open(directory.path()).unwrap();
        assert_eq!(created.certificate(), opened.certificate());
        assert_eq!(created.issuer.key().public_key_pem(), opened.issuer.key().public_key_pem());
    }

    #[test]
    fn private_keys_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let (_directory, authority) = authority();
        let files = authority.issue_files("admin", &Subject::admin(), &[]).unwrap();
        assert_eq!(fs::metadata(files.key).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_kubeconfig_for_a_certificate_is_understood_by_kube() {
        let (_directory, authority) = authority();
        let pair = authority.issue(&Subject::admin(), &[]).unwrap();
        let text = authority.kubeconfig("https://127.0.0.1:6443", &Credentials::Certificate(pair));
        let config = config(&text).await;
        assert_eq!(config.cluster_url, "https://127.0.0.1:6443/");
        assert!(config.root_cert.is_some());
        assert!(config.auth_info.client_certificate_data.is_some());
    }

    #[tokio::test]
    async fn a_kubeconfig_for_a_token_carries_the_token() {
        let (_directory, authority) = authority();
        let text = authority.kubeconfig("https://127.0.0.1:6443", &Credentials::Token("a.b-c_d".into()));
        assert!(config(&text).await.auth_info.token.is_some());
        assert!(text.contains("a.b-c_d"));
    }

    #[test]
    fn a_name_that_is_neither_host_nor_address_is_refused() {
        let (_directory, authority) = authority();
        assert!(authority.issue(&Subject::user("x"), &["ünïcode"]).is_err());
    }
}
