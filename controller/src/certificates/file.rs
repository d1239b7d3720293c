//! Trust in a certificate that somebody else makes: the CAs stand in a file, such as a mounted Secret.

use std::path::PathBuf;

use k8s_openapi::jiff::Timestamp;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use webservice_certs::Bundle;

use super::plan::unpublished;
use super::{Problem, Rest, resting};
use crate::registration::Registrations;

/// A Secret or ConfigMap is at most 1 MiB; whatever is longer is none.
const MAX_BYTES: u64 = 1024 * 1024;

/// See the [module](self).
pub(super) struct TrustFile {
    path: PathBuf,
    registrations: Registrations,
}

impl TrustFile {
    pub(super) fn new(path: PathBuf, registrations: Registrations) -> Self {
        Self { path, registrations }
    }

    pub(super) async fn pass(&self, now: Timestamp) -> Result<Rest, Problem> {
        let trusted = self.read().await?;
        let mut found = super::registrations(&self.registrations).await?;
        for _ in 0..found.len() {
            let present: Vec<_> = found.iter().map(|registration| registration.bundles.clone()).collect();
            let Some((index, bundle)) = unpublished(&trusted, &present, now) else { break };
            if let Some(seen) = found.get_mut(index) {
                *seen = super::publish(&self.registrations, seen, &bundle).await?;
            }
        }
        Ok(resting(None, &self.registrations, found.len()))
    }

    async fn read(&self) -> Result<Bundle, Problem> {
        let failed = |reason: String| Problem::File { path: self.path.clone(), reason };
        let mut pem = Vec::new();
        let read = async { File::open(&self.path).await?.take(MAX_BYTES).read_to_end(&mut pem).await };
        read.await.map_err(|error| failed(error.to_string()))?;
        let bundle = Bundle::from_pem(&pem).map_err(|error| failed(error.to_string()))?;
        if bundle == Bundle::default() {
            return Err(failed(
                "it holds no certificate; write the CA in PEM (\"BEGIN CERTIFICATE\")".into(),
            ));
        }
        Ok(bundle)
    }
}

#[cfg(test)]
mod tests {
    use kube::Client;
    use webservice_certs::{Ca, Validity};

    use super::*;

    fn read(content: Option<&str>) -> Result<Bundle, String> {
        let path = std::env::temp_dir().join(format!("trust-{}", fastrand::u64(..)));
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = runtime.block_on(async {
            let nobody = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
            let client = Client::try_from(nobody).unwrap();
            TrustFile::new(path.clone(), Registrations::new(&client, "webhook")).read().await
        });
        let _ = std::fs::remove_file(path);
        read.map_err(|problem| problem.to_string())
    }

    #[test]
    fn what_is_no_list_of_cas_is_refused_with_the_files_name() {
        for content in
            [None, Some(""), Some("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n")]
        {
            let error = read(content).unwrap_err();
            assert!(error.starts_with("failed to read the CAs from /"), "{error}");
        }
    }

    #[test]
    fn all_cas_of_the_file_are_trusted() {
        let life = Validity::lasting(k8s_openapi::jiff::SignedDuration::from_hours(1), Timestamp::now());
        let [one, other] = [(); 2].map(|()| Ca::create(life).unwrap());
        let both = format!("{}{}", one.certificate_pem(), other.certificate_pem());
        assert_eq!(read(Some(&both)).unwrap().to_pem(), both);
    }
}
