//! The command line as a whole: the controller itself, and what else its binary does.

use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;
use webservice_ops::logging::LogArgs;

use crate::check_webhook::{self, CheckWebhookArgs, CheckWebhookError};
use crate::config::Config;
use crate::run::{self, RunError};
use crate::uninstall::{self, UninstallArgs, UninstallError};

/// See [`Config`].
#[derive(Clone, Debug, Parser)]
#[command(
    name = "webservice-controller",
    version,
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
pub struct Program {
    #[command(flatten)]
    config: Config,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Uninstall(UninstallArgs),
    CheckWebhook(CheckWebhookArgs),
}

/// Why the process ended otherwise than it should.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The controller.
    #[error(transparent)]
    Run(#[from] RunError),
    /// `uninstall`.
    #[error(transparent)]
    Uninstall(#[from] UninstallError),
    /// `check-webhook`.
    #[error(transparent)]
    CheckWebhook(#[from] CheckWebhookError),
}

impl Program {
    /// How it logs.
    #[must_use]
    pub fn log(&self) -> &LogArgs {
        match &self.command {
            None => &self.config.log,
            Some(Command::Uninstall(args)) => &args.log,
            Some(Command::CheckWebhook(args)) => &args.log,
        }
    }

    /// Does what the command line says, until it is done or `shutdown` is cancelled.
    ///
    /// # Errors
    /// What went wrong, in a sentence.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ProgramError> {
        match self.command {
            // Boxed as it is large, and one of three.
            None => Ok(Box::pin(run::run(self.config, shutdown)).await?),
            Some(Command::Uninstall(args)) => Ok(Box::pin(uninstall::run(args, shutdown)).await?),
            Some(Command::CheckWebhook(args)) => Ok(check_webhook::run(args, shutdown).await?),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn flags_of_the_controller_are_none_of_a_command() {
        Program::try_parse_from(["webservice-controller", "--concurrency=3"]).unwrap();
        let uninstall = ["webservice-controller", "uninstall", "--webhook-configuration=a", "--timeout=90s"];
        Program::try_parse_from(uninstall).unwrap();
        Program::try_parse_from(["webservice-controller", "--concurrency=3", "check-webhook"]).unwrap_err();
        // What is added to the chart's flags comes last and wins.
        let twice = [
            "webservice-controller",
            "--leader-elect",
            "--concurrency=3",
            "--leader-elect",
            "--concurrency=5",
        ];
        assert_eq!(Program::try_parse_from(twice).unwrap().config.concurrency, 5);
    }
}
