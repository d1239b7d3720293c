//! OCI image archives, written without any container tool.
//!
//! The format is the one of the OCI image specification: an image layout (`oci-layout`, `index.json`,
//! `blobs/sha256/…`) inside one tar file, as `ctr images import` reads it. The same input gives the same bytes, whenever
//! and by whomever it is built.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Full reference with host and tag, such as `localhost/webservice-webhook:dev`: no runtime completes it.
    pub name: String,
    /// The files of each layer. The directories above them are made.
    pub layers: Vec<Vec<ImageFile>>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Numeric `uid:gid`, so that `runAsNonRoot` can be checked without a password file.
    pub user: String,
}

/// A regular file of an image, owned by root.
#[derive(Clone, Debug)]
pub struct ImageFile {
    /// Absolute path inside the image.
    pub path: PathBuf,
    /// Where its content is read from.
    pub source: PathBuf,
    /// Permission bits, such as `0o755`.
    pub mode: u32,
}

/// How layers are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// For this machine alone: a development build compresses ten times slower otherwise.
    Fast,
    /// For whoever downloads it.
    Small,
}

/// An image that is packed.
#[derive(Debug)]
pub struct Archive {
    /// The tar file.
    pub bytes: Vec<u8>,
    /// What the image is known by, such as `sha256:12…`.
    pub digest: String,
    /// The compressed size of each layer, in bytes.
    pub layer_sizes: Vec<usize>,
}

impl Image {
    /// The image of static programs, run as the user 65532 (`nonroot` by custom). Each has a layer of its own, so a node fetches only
    /// what has changed; the first one is what runs unless a pod says otherwise.
    pub fn of_programs(name: &str, programs: &[&Path]) -> Result<Self> {
        let file = |program: &&Path| {
            let file_name =
                program.file_name().with_context(|| format!("{} names no program", program.display()))?;
            Ok(ImageFile { path: Path::new("/").join(file_name), source: program.to_path_buf(), mode: 0o755 })
        };
        let files: Vec<_> = programs.iter().map(file).collect::<Result<_>>()?;
        Ok(Self {
            name: name.to_owned(),
            entrypoint: files.first().map(|file| file.path.display().to_string()).into_iter().collect(),
            layers: files.into_iter().map(|file| vec![file]).collect(),
            user: "65532:65532".to_owned(),
        })
    }

    /// Packs it.
    pub fn to_archive(&self, packing: Packing) -> Result<Archive> {
        let tars: Vec<_> = self.layers.iter().map(|files| layer_tar(files)).collect::<Result<_>>()?;
        let layers: Vec<_> =
            tars.iter().map(|tar| Ok(Blob::new(LAYER, gzip(tar, packing)?))).collect::<Result<_>>()?;
        let diff_ids: Vec<_> = tars.iter().map(|tar| digest(tar)).collect();
        let config = Blob::new(CONFIG, self.config(&diff_ids).to_string().into_bytes());
        let manifest = Blob::new(MANIFEST, manifest(&config, &layers).to_string().into_bytes());
        let index = self.index(&manifest);

        let mut archive = Builder::new(Vec::new());
        append_file(&mut archive, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        append_file(&mut archive, "index.json", 0o644, index.to_string().as_bytes())?;
        for blob in [&manifest, &config].into_iter().chain(&layers) {
            append_file(&mut archive, blob.path(), 0o644, &blob.bytes)?;
        }
        Ok(Archive {
            bytes: archive.into_inner().context("failed to finish the image archive")?,
            digest: manifest.digest,
            layer_sizes: layers.iter().map(|layer| layer.bytes.len()).collect(),
        })
    }

    fn config(&self, diff_ids: &[String]) -> Value {
        json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "User": self.user,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        })
    }

    fn index(&self, manifest: &Blob) -> Value {
        let mut descriptor = manifest.descriptor();
        descriptor["platform"] = json!({"architecture": architecture(), "os": "linux"});
        // The first is what containerd names the image by, the second what other tools do.
        descriptor["annotations"] =
            json!({"io.containerd.image.name": self.name, "org.opencontainers.image.ref.name": self.name});
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]})
    }
}

fn layer_tar(files: &[ImageFile]) -> Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    for (path, entry) in entries(files)? {
        match entry {
            Entry::Directory => append(&mut layer, path, EntryType::Directory, 0o755, 0, io::empty())?,
            Entry::File(file) => append_source(&mut layer, path, file)?,
        }
    }
    layer.into_inner().context("failed to finish an image layer")
}

/// What a layer holds, by path below the root. The order of the map puts every directory before its content.
fn entries(files: &[ImageFile]) -> Result<BTreeMap<&Path, Entry<'_>>> {
    let mut entries = BTreeMap::new();
    for file in files {
        let path = path_below_root(&file.path)?;
        let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        entries.extend(parents.map(|parent| (parent, Entry::Directory)));
        entries.insert(path, Entry::File(file));
    }
    Ok(entries)
}

enum Entry<'a> {
    Directory,
    File(&'a ImageFile),
}

/// Content that is named by its digest.
struct Blob {
    media_type: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: digest(&bytes), bytes }
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len()})
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

fn manifest(config: &Blob, layers: &[Blob]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(),
        "layers": layers.iter().map(Blob::descriptor).collect::<Vec<_>>(),
    })
}

/// This machine's architecture, as Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::from("sha256:"), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

fn gzip(bytes: &[u8], packing: Packing) -> Result<Vec<u8>> {
    let level = match packing {
        Packing::Fast => Compression::fast(),
        Packing::Small => Compression::best(),
    };
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).context("failed to compress an image layer")
}

fn path_below_root(path: &Path) -> Result<&Path> {
    let below = path.strip_prefix("/").unwrap_or(Path::new(""));
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(
        plain && !below.as_os_str().is_empty(),
        "{} is no path for a file of an image: give an absolute one without `..`",
        path.display()
    );
    Ok(below)
}

fn append_source(layer: &mut Builder<Vec<u8>>, path: &Path, file: &ImageFile) -> Result<()> {
    let failed = || format!("failed to read {} for the image", file.source.display());
    let source = File::open(&file.source).with_context(failed)?;
    let size = source.metadata().with_context(failed)?.len();
    append(layer, path, EntryType::Regular, file.mode, size, source)
}

fn append_file(
    archive: &mut Builder<Vec<u8>>,
    path: impl AsRef<Path>,
    mode: u32,
    bytes: &[u8],
) -> Result<()> {
    append(archive, path.as_ref(), EntryType::Regular, mode, bytes.len() as u64, bytes)
}

/// Appends an entry that tells nothing of this machine: no times, no owner but root.
fn append(
    archive: &mut Builder<Vec<u8>>,
    path: &Path,
    kind: EntryType,
    mode: u32,
    size: u64,
    content: impl io::Read,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    archive
        .append_data(&mut header, path, content)
        .with_context(|| format!("failed to add {} to the image", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::io::Read;
    use std::time::SystemTime;

    use flate2::read::GzDecoder;
    use tempfile::TempDir;

    use super::*;

    struct Fixture {
        directory: TempDir,
        image: Image,
    }

    fn image() -> Fixture {
        let directory = TempDir::new().unwrap();
        let source = directory.path().join("server");
        fs::write(&source, "#!/bin/true\n").unwrap();
        let image = Image {
            name: "localhost/server:test".to_owned(),
            layers: vec![vec![
                ImageFile { path: "/usr/bin/server".into(), source: source.clone(), mode: 0o755 },
                ImageFile { path: "/etc/server.conf".into(), source, mode: 0o600 },
            ]],
            entrypoint: vec!["/usr/bin/server".to_owned(), "--verbose".to_owned()],
            user: "65532:65532".to_owned(),
        };
        Fixture { directory, image }
    }

    fn unpack(tar: &[u8]) -> HashMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        entries.collect()
    }

    /// Follows a descriptor to its blob, and checks digest and size on the way.
    fn follow<'a>(archive: &'a HashMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
        let name = descriptor["digest"].as_str().unwrap();
        let blob = &archive[&format!("blobs/{}", name.replace(':', "/"))];
        assert_eq!(digest(blob), name);
        assert_eq!(blob.len() as u64, descriptor["size"]);
        blob
    }

    fn follow_to_json(archive: &HashMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        serde_json::from_slice(follow(archive, descriptor)).unwrap()
    }

    fn gunzip(bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
        plain
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        let Fixture { directory, image } = image();
        let first = image.to_archive(Packing::Fast).unwrap().bytes;
        let touched = File::options().append(true).open(directory.path().join("server")).unwrap();
        touched.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let reversed = Image { layers: vec![image.layers[0].iter().rev().cloned().collect()], ..image };
        assert!(first == reversed.to_archive(Packing::Fast).unwrap().bytes);
    }

    #[test]
    fn every_digest_names_the_blob_it_points_at() {
        let archive = unpack(&image().image.to_archive(Packing::Fast).unwrap().bytes);
        let index: Value = serde_json::from_slice(&archive["index.json"]).unwrap();
        let manifest = follow_to_json(&archive, &index["manifests"][0]);
        let config = follow_to_json(&archive, &manifest["config"]);
        let layer = gunzip(follow(&archive, &manifest["layers"][0]));
        assert_eq!(config["rootfs"]["diff_ids"][0], digest(&layer));
    }

    #[test]
    fn every_program_has_a_layer_of_its_own_and_the_first_one_is_what_runs() {
        let source = image();
        let [first, second] = ["first", "second"].map(|name| source.directory.path().join(name));
        for program in [&first, &second] {
            fs::write(program, "").unwrap();
        }
        let image = Image::of_programs("localhost/both:test", &[&first, &second]).unwrap();
        let archive = unpack(&image.to_archive(Packing::Small).unwrap().bytes);
        let index: Value = serde_json::from_slice(&archive["index.json"]).unwrap();
        let manifest = follow_to_json(&archive, &index["manifests"][0]);
        let layer = |index: usize| {
            unpack(&gunzip(follow(&archive, &manifest["layers"][index]))).into_keys().collect::<Vec<_>>()
        };
        assert_eq!((layer(0), layer(1)), (vec!["first".to_owned()], vec!["second".to_owned()]));
        assert_eq!(image.entrypoint, ["/first"]);
    }

    #[test]
    fn the_image_says_its_name_and_how_it_is_run() {
        let archive = unpack(&image().image.to_archive(Packing::Fast).unwrap().bytes);
        let index: Value = serde_json::from_slice(&archive["index.json"]).unwrap();
        let manifest = follow_to_json(&archive, &index["manifests"][0]);
        let config = follow_to_json(&archive, &manifest["config"]);
        assert_eq!(index["manifests"][0]["annotations"]["io.containerd.image.name"], "localhost/server:test");
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/server", "--verbose"]));
        assert_eq!(config["config"]["User"], "65532:65532");
    }

    #[test]
    fn directories_come_before_what_is_in_them_and_all_belongs_to_root() {
        let layer = layer_tar(&image().image.layers[0]).unwrap();
        let mut archive = tar::Archive::new(layer.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 0));
            format!("{:o} {}", header.mode().unwrap(), entry.path().unwrap().display())
        });
        assert_eq!(
            entries.collect::<Vec<_>>(),
            ["755 etc", "600 etc/server.conf", "755 usr", "755 usr/bin", "755 usr/bin/server"]
        );
    }

    #[test]
    fn a_path_that_leaves_the_image_is_refused() {
        for path in ["relative", "/", "/usr/../../etc/passwd"] {
            let mut fixture = image();
            fixture.image.layers[0][0].path = path.into();
            let error = fixture.image.to_archive(Packing::Fast).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{path} is no path")), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut fixture = image();
        fixture.image.layers[0][0].source = "/nonexistent/server".into();
        let error = fixture.image.to_archive(Packing::Fast).unwrap_err();
        assert_eq!(error.to_string(), "failed to read /nonexistent/server for the image");
    }
}
