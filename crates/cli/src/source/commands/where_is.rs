//! `rustorch where`: the path of a model.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use hub::Settings;

use super::super::{addresses, stores};
use super::Target;
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model, as for -m
    name: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = Settings::from_env()?;
    let missing =
        || format!("{0} is not on this machine; `rustorch pull {0}` downloads it", args.name.display());
    let path = match Target::of(&args.name)? {
        Target::File(path) if path.exists() => path,
        Target::File(path) => bail!("{} does not exist", path.display()),
        Target::Held(held) => held.path().to_owned(),
        Target::Hub(name) => stores::find(&settings, &name)?.with_context(missing)?.0.path().to_owned(),
        Target::Address(address) => addresses::find(&address)?.with_context(missing)?,
    };
    output::write_all(format!("{}\n", path.display()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
