//! `rustorch devices`: what the backends run on and how.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use backend::{Backend, Description};
use backend_reference::Reference;
use backend_wgpu::{Adapter, Gpu};
use serde::Serialize;

use crate::args::CpuArgs;
use crate::backends;
use crate::output::{self, BOLD, counted, printable, size};

/// What `devices` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cpu: CpuArgs,
}

/// What a backend runs on.
#[derive(Serialize)]
struct Device {
    backend: &'static str,
    device: String,
    /// Whether backend `auto` takes it.
    auto: bool,
    /// Bytes of memory of its own, as far as the driver says.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    #[serde(serialize_with = "in_order")]
    facts: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct Memory {
    total: Option<u64>,
    free: Option<u64>,
}

fn in_order<S: serde::Serializer>(facts: &[(&'static str, String)], to: S) -> Result<S::Ok, S::Error> {
    facts.iter().map(|(name, fact)| (name, fact)).collect::<BTreeMap<_, _>>().serialize(to)
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let adapters = backend_wgpu::adapters();
    let taken = backends::taken_by_auto(&adapters).map(|adapter| adapter.name().to_owned());
    let mut devices = vec![described(backends::cpu(args.cpu).describe(), taken.is_none())];
    let mut is_taken = false;
    for adapter in &adapters {
        // Of several of one name, the first.
        let auto = !is_taken && taken.as_deref() == Some(adapter.name());
        is_taken |= auto;
        devices.push(graphics(adapter, auto));
    }
    devices.push(described(Reference::new().describe(), false));
    if args.json {
        output::json(&devices)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = output::stdout();
    for Device { backend, device, auto, facts, .. } in devices {
        let taken = if auto { "  (backend auto takes it)" } else { "" };
        writeln!(out, "{BOLD}{backend}{BOLD:#}  {}{taken}", printable(&device, ""))?;
        write!(out, "{}", output::pairs(facts))?;
    }
    if adapters.is_empty() {
        writeln!(out, "no graphics processor: no Vulkan or Metal driver says it has one")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn described(Description { name: backend, device, facts }: Description, auto: bool) -> Device {
    Device { backend, device, auto, memory: None, facts }
}

/// A graphics processor, whether it can be opened or not.
fn graphics(adapter: &Adapter, auto: bool) -> Device {
    let (found, room) = (adapter.facts(), adapter.room());
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size);
    let mut facts = vec![
        ("kind", found.kind.to_owned()),
        ("driver", printable(&found.driver, "")),
        ("memory", format!("{}, of which free: {}", bytes(room.total), bytes(room.free))),
        ("largest buffer", format!("{}, of which a kernel sees {}", size(found.buffer), size(found.binding))),
        (
            "workgroups",
            format!(
                "up to {}, which share {}",
                counted(u64::from(found.workgroup), "thread"),
                size(found.workgroup_memory.into())
            ),
        ),
        (
            "subgroups",
            match found.subgroups {
                Some((least, most)) if least == most => counted(u64::from(least), "thread"),
                Some((least, most)) => format!("{least} to {most} threads"),
                None => "none".to_owned(),
            },
        ),
        ("f16 in kernels", if found.has_f16 { "yes" } else { "no" }.to_owned()),
        (
            "matrix units",
            if found.matrices.is_empty() { "none".to_owned() } else { found.matrices.join(", ") },
        ),
        (
            "weights",
            format!(
                "in {}; other formats as F16, or F32 if numbers are too large",
                backend_wgpu::formats().join(", ")
            ),
        ),
    ];
    if let Err(error) = Gpu::new(adapter) {
        facts.push(("cannot be opened", printable(&error.to_string(), "")));
    }
    Device {
        backend: adapter.interface(),
        device: adapter.name().to_owned(),
        auto,
        memory: Some(Memory { total: room.total, free: room.free }),
        facts,
    }
}
