//! `rustorch devices`: what the backends run on and how.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::args::DevicesArgs;
use crate::load;
use crate::output::{self, BOLD};

#[derive(Serialize)]
struct Device {
    backend: &'static str,
    device: String,
    facts: BTreeMap<&'static str, String>,
}

pub(crate) fn run(args: DevicesArgs) -> anyhow::Result<ExitCode> {
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
