//! Properties of an adapter, known before it is opened.

use crate::device::Adapter;

/// Properties and capabilities of an adapter.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Such as `discrete` or `software`.
    pub kind: &'static str,
    /// The driver's name and version.
    pub driver: String,
    /// Minimum and maximum subgroup size, if subgroup operations are supported.
    pub subgroups: Option<(u32, u32)>,
    /// Whether shaders support f16 arithmetic.
    pub has_f16: bool,
    /// Cooperative matrix configurations, such as `16x16x16 F16 to F32`.
    pub matrices: Vec<String>,
    /// Maximum buffer size in bytes.
    pub buffer: u64,
    /// Maximum size of a storage binding in bytes.
    pub binding: u64,
    /// Workgroup (shared) memory in bytes.
    pub workgroup_memory: u32,
    /// Maximum threads per workgroup.
    pub workgroup: u32,
}

impl Adapter {
    /// Properties and capabilities.
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

/// Whether this machine may have a GPU. Initialising drivers is slow, and some print to stderr. On Linux every GPU
/// driver creates a device file, so without one there is nothing to initialise.
pub fn may_have_gpu() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    // In order: DRM (Mesa and others), NVIDIA, AMD compute, WSL, Arm Mali, Qualcomm Adreno, PowerVR.
    let names = ["dri", "nvidia", "kfd", "dxg", "mali", "kgsl", "pvr"];
    let Ok(files) = std::fs::read_dir("/dev") else { return true };
    files.flatten().any(|file| names.iter().any(|name| file.file_name().to_string_lossy().starts_with(name)))
}
