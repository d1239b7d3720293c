//! `cargo xtask prove SUITE`: what is too long to be run every time.

use anyhow::Result;
use clap::ValueEnum;

use crate::interrupt::or_interrupt;
use crate::test::{Report, cargo, on_a_cluster};

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
    /// Defaults and rules over 100,000 generated objects; 1,000 of them put to the API server's schema, too
    Rules,
}

impl Suite {
    /// The tests that it consists of, by a part of their names.
    const fn filter(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Rules => "agreement",
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let mut report = Report::default();
    let result = or_interrupt(async {
        report.cargo("build", &["build", "--workspace", "--all-targets", "--locked"]).await?;
        if let Suite::Rules = args.suite {
            let mut properties =
                cargo(&["test", "--workspace", "--locked", "--lib", "--", "admission::properties"]);
            report.command("properties", properties.env("PROPTEST_CASES", "100000")).await?;
        }
        on_a_cluster(Some(args.suite.filter()), &[("WEBSERVICE_PROVE", "1")], &mut report).await
    })
    .await;
    report.print();
    result
}
