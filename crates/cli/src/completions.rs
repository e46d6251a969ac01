//! `rustorch completions`: what a shell is told of commands and options.

use std::process::ExitCode;

use clap::Command;

use crate::output;

/// What `completions` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints the script for `command`, which is all of the program's.
pub(crate) fn run(args: Args, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "rustorch", &mut script);
    output::write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
