//! `rustorch devices`: the devices of all backends.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use backend::{Device, DeviceInfo, DeviceKind, DeviceMemory, OpenOptions};
use rustorch::devices::{self, registry};
use serde_json::json;

use crate::args::CpuArgs;
use crate::output::{self, BOLD, printable};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cpu: CpuArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let found = registry().devices();
    let taken = devices::chosen(found.clone(), false);
    let is_taken = |device: &Arc<dyn Device>| match device.info().kind {
        DeviceKind::Cpu => taken.is_empty(),
        _ => taken.iter().any(|taken| Arc::ptr_eq(taken, device)),
    };
    let is_graphics = |kind| !matches!(kind, DeviceKind::Cpu | DeviceKind::Reference);
    let options = OpenOptions::from(args.cpu);
    let facts = |device: &Arc<dyn Device>| {
        device.facts(&options).into_iter().map(|(name, fact)| (name, printable(&fact, "")))
    };
    if args.json {
        let json = |device: &Arc<dyn Device>| {
            let DeviceInfo { backend, name, memory: DeviceMemory { total, free }, kind, .. } = device.info();
            let mut json = json!({ "backend": backend, "device": name, "auto": is_taken(device) });
            if is_graphics(kind) {
                json["memory"] = json!({ "total": total, "free": free });
            }
            json["facts"] = json!(facts(device).collect::<BTreeMap<_, _>>());
            json
        };
        return output::json(&found.iter().map(json).collect::<Vec<_>>());
    }
    let mut out = output::stdout();
    for device in &found {
        let (info, auto) = (device.info(), is_taken(device));
        let taken = if auto { "  (backend auto takes it)" } else { "" };
        writeln!(out, "{BOLD}{}{BOLD:#}  {}{taken}", info.backend, printable(&info.name, ""))?;
        write!(out, "{}", output::pairs(facts(device)))?;
    }
    if devices::graphics_backends().next().is_none() {
        writeln!(out, "no GPU backend: this build is without the Cargo feature `gpu`")?;
    } else if !found.iter().any(|device| is_graphics(device.info().kind)) {
        writeln!(out, "no GPU: no Vulkan or Metal driver reports one")?;
    }
    Ok(out.flush()?)
}
