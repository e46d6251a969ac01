//! `rustorch devices`: what the backends run on and how.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use backend::Description;
use serde::Serialize;

use crate::args::CpuArgs;
use crate::backends;
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
    let described: Vec<Description> =
        backends::all(args.cpu)?.iter().map(|backend| backend.describe()).collect();
    if args.json {
        let device = |description: Description| Device {
            backend: description.name,
            device: description.device,
            facts: description.facts.into_iter().collect(),
        };
        output::json(&described.into_iter().map(device).collect::<Vec<_>>())?;
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
