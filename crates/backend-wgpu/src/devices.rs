//! The driver that lists this machine's GPUs.

use std::sync::Arc;

use backend::{Backend, Device, DeviceInfo, DeviceKind, Driver, Error, OpenOptions, readable_size};

use crate::{Adapter, Facts, Gpu, Options, adapters, formats, may_have_gpu};

/// Lists the devices of Vulkan and Metal.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuDriver;

impl Driver for GpuDriver {
    fn backends(&self) -> &'static [&'static str] {
        &["vulkan", "metal"]
    }

    fn is_likely(&self) -> bool {
        may_have_gpu()
    }

    fn find(&self) -> Vec<Arc<dyn Device>> {
        adapters().into_iter().map(|adapter| Arc::new(adapter) as Arc<dyn Device>).collect()
    }
}

impl From<&OpenOptions> for Options {
    fn from(options: &OpenOptions) -> Options {
        let &OpenOptions { f32_activations, memory, timed: is_timed, .. } = options;
        Options { is_timed, f32_activations, memory }
    }
}

impl Device for Adapter {
    fn info(&self) -> DeviceInfo {
        let address = Some(self.info.device_pci_bus_id.clone()).filter(|address| !address.is_empty());
        DeviceInfo {
            backend: self.interface(),
            name: self.name().to_owned(),
            kind: match self.info.device_type {
                wgpu::DeviceType::DiscreteGpu | wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => {
                    DeviceKind::DiscreteGpu
                }
                wgpu::DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
                wgpu::DeviceType::Cpu => DeviceKind::SoftwareGpu,
            },
            address,
            memory: self.memory(),
            instruction_sets: Vec::new(),
        }
    }

    fn facts(&self, options: &OpenOptions) -> Vec<(&'static str, String)> {
        let Facts {
            kind,
            driver,
            subgroups,
            has_f16,
            matrices,
            buffer,
            binding,
            workgroup_memory,
            workgroup,
        } = Adapter::facts(self);
        let memory = self.memory();
        let size = readable_size;
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size);
        let mut facts = vec![
            ("kind", kind.to_owned()),
            ("driver", driver),
            ("memory", format!("{} total, {} free", known(memory.total), known(memory.free))),
            ("largest buffer", format!("{}, {} per binding", size(buffer), size(binding))),
            (
                "workgroups",
                format!("up to {workgroup} threads, {} of workgroup memory", size(workgroup_memory.into())),
            ),
            (
                "subgroups",
                match subgroups {
                    Some((min, max)) if min == max => format!("{min} threads"),
                    Some((min, max)) => format!("{min} to {max} threads"),
                    None => "none".to_owned(),
                },
            ),
            ("f16 arithmetic", if has_f16 { "yes" } else { "no" }.to_owned()),
            ("matrix units", if matrices.is_empty() { "none".to_owned() } else { matrices.join(", ") }),
            (
                "weights",
                format!(
                    "{}; other formats become F16, or F32 where F16 would overflow",
                    formats().join(", ")
                ),
            ),
        ];
        if let Err(error) = Gpu::with(self, options.into()) {
            facts.push(("cannot be opened", error.to_string()));
        }
        facts
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
        Ok(Box::new(Gpu::with(self, options.into())?))
    }
}
