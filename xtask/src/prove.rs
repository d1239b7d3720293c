//! `cargo xtask prove SUITE`: what is too long to be run every time.

use anyhow::Result;
use clap::ValueEnum;

use crate::interrupt::or_interrupt;
use crate::test::{Report, on_a_cluster};

/// Run the long form of a suite: repetitions, soaks and waits that `cargo xtask test` shortens
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_enum)]
    suite: Suite,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// 50 WebServices at rest for five minutes: no writes
    Steady,
}

impl Suite {
    /// The tests that it consists of, by a part of their names.
    const fn filter(self) -> &'static str {
        match self {
            Self::Steady => "steady",
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let mut report = Report::default();
    let result = or_interrupt(async {
        report.cargo("build", &["build", "--workspace", "--all-targets", "--locked"]).await?;
        on_a_cluster(Some(args.suite.filter()), &[("WEBSERVICE_PROVE", "1")], &mut report).await
    })
    .await;
    report.print();
    result
}
