//! `cargo xtask image`: what the Dockerfile makes, as an archive and without Docker.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use webservice_tests::image::Packing;
use webservice_tests::operator_image::{self, Profile};

use crate::interrupt::or_interrupt;
use crate::root;

/// What a layer may have, in bytes. The floor of the goals; the aim is half of it.
const MOST: usize = 10 << 20;

/// Build the operator's image as an OCI archive, without Docker
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name that it is loaded under
    #[arg(long, default_value = concat!("ghcr.io/labhub-io/webservice-operator:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Where it is written, for `ctr images import`, `skopeo copy oci-archive:…` and the like
    #[arg(long, default_value = "target/webservice-operator.tar")]
    output: PathBuf,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    or_interrupt(write(&args)).await
}

async fn write(args: &Args) -> Result<()> {
    let image = operator_image::build(&args.name, Profile::Release).await?;
    let archive = image.to_archive(Packing::Small)?;
    for (files, size) in image.layers.iter().zip(&archive.layer_sizes) {
        let names: Vec<_> = files.iter().map(|file| file.path.display().to_string()).collect();
        println!("{:>10} bytes  {}", size, names.join(", "));
        ensure!(*size <= MOST, "the layer of {} is larger than {MOST} bytes", names.join(", "));
    }
    let output = root().join(&args.output);
    std::fs::write(&output, &archive.bytes)
        .with_context(|| format!("failed to write {}", output.display()))?;
    println!("{}@{} is in {}", args.name, archive.digest, output.display());
    Ok(())
}
