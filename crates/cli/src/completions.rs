//! `rustorch completions`: what a shell is told of commands and options.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;
use crate::output;

/// What `completions` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rustorch", &mut script);
    output::write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
