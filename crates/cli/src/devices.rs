//! `rustorch devices`: the devices of all backends.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use backend::{DeviceInfo, DeviceKind, DeviceMemory, OpenOptions};
use rustorch::devices::{self, registry};
use serde::Serialize;
use serde_json::{Value, json};

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

#[derive(Serialize)]
struct Device {
    backend: &'static str,
    device: String,
    auto: bool,
    /// Bytes of device memory, as far as the driver reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Value>,
    #[serde(serialize_with = "in_order")]
    facts: Vec<(&'static str, String)>,
}

fn in_order<S: serde::Serializer>(facts: &[(&'static str, String)], to: S) -> Result<S::Ok, S::Error> {
    facts.iter().map(|(name, fact)| (name, fact)).collect::<BTreeMap<_, _>>().serialize(to)
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let found = registry().devices();
    let taken = devices::chosen(found.clone(), false);
    let is_taken = |device: &Arc<dyn backend::Device>| match device.info().kind {
        DeviceKind::Cpu => taken.is_empty(),
        _ => taken.iter().any(|taken| Arc::ptr_eq(taken, device)),
    };
    let options = OpenOptions::from(args.cpu);
    let device = |device: &Arc<dyn backend::Device>| {
        let DeviceInfo { backend, name, memory: DeviceMemory { total, free }, kind, .. } = device.info();
        let has_own = !matches!(kind, DeviceKind::Cpu | DeviceKind::Reference);
        let memory = has_own.then(|| json!({ "total": total, "free": free }));
        let facts = device.facts(&options).into_iter().map(|(name, fact)| (name, printable(&fact, "")));
        Device { backend, device: name, auto: is_taken(device), memory, facts: facts.collect() }
    };
    let devices: Vec<Device> = found.iter().map(device).collect();
    if args.json {
        return output::json(&devices);
    }
    let has_graphics = devices.iter().any(|device| device.memory.is_some());
    let mut out = output::stdout();
    for Device { backend, device, auto, facts, .. } in devices {
        let taken = if auto { "  (backend auto takes it)" } else { "" };
        writeln!(out, "{BOLD}{backend}{BOLD:#}  {}{taken}", printable(&device, ""))?;
        write!(out, "{}", output::pairs(facts))?;
    }
    if devices::graphics_backends().next().is_none() {
        writeln!(out, "no GPU backend: this build is without the Cargo feature `gpu`")?;
    } else if !has_graphics {
        writeln!(out, "no GPU: no Vulkan or Metal driver reports one")?;
    }
    out.flush()?;
    Ok(())
}
