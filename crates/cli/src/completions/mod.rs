//! `rustorch completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::Command;

use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: Args, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "rustorch", &mut script);
    output::write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
