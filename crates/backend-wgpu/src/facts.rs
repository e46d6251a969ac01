//! What there is to know about an adapter before it is opened.

use crate::device::Adapter;

/// What an adapter is and can do.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Such as `discrete` or `software`.
    pub kind: &'static str,
    /// The driver's name and version.
    pub driver: String,
    /// Threads of a subgroup, least and most, where kernels can add across them.
    pub subgroups: Option<(u32, u32)>,
    /// Whether kernels can compute in f16.
    pub has_f16: bool,
    /// What matrix units multiply, such as `16x16x16 F16 to F32`.
    pub matrices: Vec<String>,
    /// Bytes of the longest buffer.
    pub buffer: u64,
    /// Bytes that a kernel sees of a buffer, at most.
    pub binding: u64,
    /// Bytes that the threads of a workgroup share.
    pub workgroup_memory: u32,
    /// Threads of a workgroup, at most.
    pub workgroup: u32,
}

impl Adapter {
    /// What it is and can do.
    pub fn facts(&self) -> Facts {
        let (features, limits) = (self.adapter.features(), self.adapter.limits());
        let subgroups = (self.info.subgroup_min_size, self.info.subgroup_max_size);
        let matrices = self.adapter.cooperative_matrix_properties();
        let matrices = matrices.iter().map(|found| {
            let (m, n, k) = (found.m_size, found.n_size, found.k_size);
            format!("{m}x{n}x{k} {:?} to {:?}", found.ab_type, found.cr_type)
        });
        let mut matrices: Vec<String> = matrices.collect();
        matrices.dedup();
        Facts {
            kind: match self.info.device_type {
                wgpu::DeviceType::DiscreteGpu => "discrete",
                wgpu::DeviceType::IntegratedGpu => "integrated",
                wgpu::DeviceType::VirtualGpu => "virtual",
                wgpu::DeviceType::Other => "other",
                wgpu::DeviceType::Cpu => "software",
            },
            driver: format!("{} {}", self.info.driver, self.info.driver_info).trim().to_owned(),
            subgroups: features.contains(wgpu::Features::SUBGROUP).then_some(subgroups),
            has_f16: features.contains(wgpu::Features::SHADER_F16),
            matrices,
            buffer: limits.max_buffer_size,
            binding: limits.max_storage_buffer_binding_size,
            workgroup_memory: limits.max_compute_workgroup_storage_size,
            workgroup: limits.max_compute_invocations_per_workgroup,
        }
    }
}

/// Whether this machine may have a graphics processor. Asking drivers takes time, and some say things on stderr;
/// on Linux a processor has a device file, and without any there is none to ask for.
pub fn may_have_gpu() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    // Mesa's and others that the kernel manages; NVIDIA's own; of AMD's compute; Windows' under Linux; of telephones.
    let names = ["dri", "nvidia", "kfd", "dxg", "mali", "kgsl", "pvr"];
    let Ok(files) = std::fs::read_dir("/dev") else { return true };
    files.flatten().any(|file| names.iter().any(|name| file.file_name().to_string_lossy().starts_with(name)))
}
