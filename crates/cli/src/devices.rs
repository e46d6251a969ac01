//! `rustorch devices`: what the backends run on and how.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::args::CpuArgs;
use crate::load;
use crate::output::{self, BOLD};

/// What `devices` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cpu: CpuArgs,
}

#[derive(Serialize)]
struct Device {
    backend: &'static str,
    device: String,
    facts: BTreeMap<&'static str, String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let described = load::backends(args.cpu).map(|backend| backend.describe());
    if args.json {
        output::json(&described.map(|description| Device {
            backend: description.name,
            device: description.device,
            facts: description.facts.into_iter().collect(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = output::stdout();
    for description in described {
        writeln!(out, "{BOLD}{}{BOLD:#}  {}", description.name, output::printable(&description.device, ""))?;
        write!(out, "{}", output::pairs(description.facts))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
