//! The driver that lists this machine's GPUs.

use std::sync::Arc;

use backend::{Backend, Device, DeviceInfo, DeviceKind, Driver, Error, OpenOptions, readable_size};
use quant::Format;

use crate::kernels::FORMATS;
use crate::{Adapter, Gpu, adapters};

/// Lists the devices of Vulkan and Metal.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuDriver;

impl Driver for GpuDriver {
    fn backends(&self) -> &'static [&'static str] {
        &["vulkan", "metal"]
    }

    fn is_likely(&self) -> bool {
        if !cfg!(target_os = "linux") {
            return true;
        }
        // Initialising drivers is slow, and some print to stderr. On Linux every GPU driver creates a device file. In
        // order: DRM (Mesa and others), NVIDIA, AMD compute, WSL, Arm Mali, Qualcomm Adreno, PowerVR.
        let names = ["dri", "nvidia", "kfd", "dxg", "mali", "kgsl", "pvr"];
        let Ok(files) = std::fs::read_dir("/dev") else { return true };
        let is_gpu = |file: &str| names.iter().any(|name| file.starts_with(name));
        files.flatten().any(|file| is_gpu(&file.file_name().to_string_lossy()))
    }

    fn find(&self) -> Vec<Arc<dyn Device>> {
        adapters().into_iter().map(|adapter| Arc::new(adapter) as Arc<dyn Device>).collect()
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
        let (features, limits, memory) = (self.adapter.features(), self.adapter.limits(), self.memory());
        let size = readable_size;
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size);
        let kind = match self.info.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete",
            wgpu::DeviceType::IntegratedGpu => "integrated",
            wgpu::DeviceType::VirtualGpu => "virtual",
            wgpu::DeviceType::Other => "other",
            wgpu::DeviceType::Cpu => "software",
        };
        let (buffer, binding) = (limits.max_buffer_size, limits.max_storage_buffer_binding_size);
        let threads = limits.max_compute_invocations_per_workgroup;
        let workgroup_memory = size(limits.max_compute_workgroup_storage_size.into());
        let subgroups = match (self.info.subgroup_min_size, self.info.subgroup_max_size) {
            _ if !features.contains(wgpu::Features::SUBGROUP) => "none".to_owned(),
            (min, max) if min == max => format!("{min} threads"),
            (min, max) => format!("{min} to {max} threads"),
        };
        let has_f16 = features.contains(wgpu::Features::SHADER_F16);
        let matrices = self.adapter.cooperative_matrix_properties();
        let matrix = |found: &wgpu::CooperativeMatrixProperties| {
            let (m, n, k) = (found.m_size, found.n_size, found.k_size);
            format!("{m}x{n}x{k} {:?} to {:?}", found.ab_type, found.cr_type)
        };
        let mut matrices: Vec<String> = matrices.iter().map(matrix).collect();
        matrices.dedup();
        let formats = FORMATS.map(Format::name).join(", ");
        let mut facts = vec![
            ("kind", kind.to_owned()),
            ("driver", format!("{} {}", self.info.driver, self.info.driver_info).trim().to_owned()),
            ("memory", format!("{} total, {} free", known(memory.total), known(memory.free))),
            ("largest buffer", format!("{}, {} per binding", size(buffer), size(binding))),
            ("workgroups", format!("up to {threads} threads, {workgroup_memory} of workgroup memory")),
            ("subgroups", subgroups),
            ("f16 arithmetic", if has_f16 { "yes" } else { "no" }.to_owned()),
            ("matrix units", if matrices.is_empty() { "none".to_owned() } else { matrices.join(", ") }),
            ("weights", format!("{formats}; other formats become F16, or F32 where F16 would overflow")),
        ];
        if let Err(error) = Gpu::with(self, options) {
            facts.push(("cannot be opened", error.to_string()));
        }
        facts
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
        Ok(Box::new(Gpu::with(self, options)?))
    }
}
