//! Validates every kernel and translates it to MSL, without a device.

use gpu::kernel_name;
use naga::back::msl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::*;
use crate::policy::{self, Caps, Subgroups};

/// WebGPU's default limits, which every device supports. Apple's are no lower (Metal feature set tables: 31 buffers,
/// 32 KB and 1024 threads per threadgroup).
const STORAGE_BUFFERS: usize = 8;
const WORKGROUP_MEMORY: u32 = 16 << 10;
const THREADS: u32 = 256;

/// All kinds of kernels in all formats, including combinations that no model needs.
fn kernels() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    let mut formats = FORMATS.map(kernel_name).to_vec();
    formats.dedup();
    for &format in &formats {
        kernels.push(Kernel::Embed { format });
    }
    for norm in [false, true] {
        kernels.push(Kernel::F16Rows { norm });
    }
    let acts = graph::Activation::ALL.map(graph::Activation::name);
    use Operation::*;
    let binary =
        [RmsNorm, LayerNorm, L2Norm, Add, Mul, Gate, GateOfRow, Join].map(|operation| (operation, true));
    let unary = [
        RmsNorm,
        LayerNorm,
        L2Norm,
        Act,
        Scale,
        ScaleRows,
        Softcap,
        Slice,
        OutputRows,
        FirstOfSequence,
        MeanOfSequence,
    ]
    .map(|operation| (operation, false));
    for (operation, reads_b) in binary.into_iter().chain(unary) {
        for (act, limited) in acts.into_iter().flat_map(|act| [(act, false), (act, true)]) {
            kernels.push(Kernel::Rows(Rows::new(operation, reads_b, act, limited)));
        }
    }
    for (experts, used, groups) in
        [(1, 1, 0), (1, 1, 1), (4, 2, 2), (4, 2, 4), (128, 8, 0), (512, 10, 8), (1000, 1000, 0)]
    {
        assert!(policy::fits_route(experts, used, groups));
        for gating in ["", "chosen_softmax", "softmax", "sigmoid"] {
            for flags in 0..4 {
                let [renormalises, biased] = [1, 2].map(|flag| flags & flag != 0 && !gating.is_empty());
                let used_groups = groups.div_ceil(2);
                let route = Route { experts, used, gating, biased, renormalises, groups, used_groups };
                kernels.push(Kernel::Route(route));
            }
        }
        kernels.push(Kernel::Groups { experts, used, tile: 32 });
    }
    kernels.extend([true, false].map(|addend| Kernel::Mix { addend }));
    for taps in [1, 2, 4, 512] {
        kernels.extend([true, false].map(|biased| Kernel::Conv { taps, biased }));
    }
    for (k_dim, v_dim, skips) in [(1, 1, 0), (7, 20, 1), (128, 128, 8), (512, 64, 16)] {
        for (delta, tiled) in [(true, true), (true, false), (false, false)] {
            kernels.push(Kernel::LinearAttention(LinearAttention { k_dim, v_dim, delta, tiled, skips }));
        }
    }
    kernels.push(Kernel::ArgMax { ahead: 8 });
    let mut lists: Vec<Vec<&str>> = formats.iter().map(|&format| vec![format]).collect();
    lists.extend(formats.iter().map(|&format| vec![format, "q6_k"]));
    lists.extend(formats.iter().map(|&format| vec![format, format, "q6_k"]));
    for parts in lists {
        for flags in 0..16 {
            let [norm, glu, addend, ragged] = [1, 2, 4, 8].map(|flag| flags & flag != 0);
            if glu && (parts.len() != 2 || addend) {
                continue;
            }
            let (act, limited) = if ragged { ("gelu_tanh", false) } else { ("gelu_sigmoid", true) };
            let matmul = Matmul { parts: parts.clone(), norm, glu, act, limited, addend, ragged };
            let without = Matmul { act: "", ..matmul.clone() };
            // Several matrices per weight: the experts that kernels are for, or heads.
            let experts: &[&str] = match parts.len() {
                2 if glu => &["in"],
                1 if !addend && !norm && !ragged => &["in", "out"],
                1 if !addend => &["in"],
                1 if !norm && !ragged => &["out"],
                _ => &[],
            };
            let mut matrices = vec![Matrices::default()];
            if parts.len() == 1 && !norm && !addend {
                matrices.push(Matrices { heads: true, scalars: ragged, ..Matrices::default() });
            }
            let options = [(false, false), (true, false), (false, true), (true, true)];
            matrices.extend(experts.iter().flat_map(|&experts| {
                options.map(|(weighs_inputs, biases)| {
                    let scales = experts == "in" && weighs_inputs == norm;
                    Matrices { experts, weighs_inputs, biases, scales, ..Matrices::default() }
                })
            }));
            let matmul = |matrices: &Matrices| match (glu, matrices.experts) {
                (true, _) | (_, "in") => matmul.clone(),
                _ => without.clone(),
            };
            for &matrices in &matrices {
                if matrices.experts.is_empty() || !addend {
                    kernels.push(Kernel::Gemm(Gemm { matmul: matmul(&matrices), matrices }));
                }
            }
            if !ragged && !parts.iter().any(|&part| part == "f32" || part == "bf16") {
                for (tile, size) in [(64, 8), (64, 16), (128, 16)] {
                    let matmul = Matmul { norm: false, ..matmul(&Matrices::default()) };
                    kernels.push(Kernel::GemmCoop(GemmCoop { matmul, tile, size, vectors: size == 16 }));
                }
            }
            for (columns, subgroups) in [(1, true), (1, false), (2, false), (8, false)] {
                let rows = if columns == 1 { 4 } else { 2 };
                let (outputs, threads) = (rows / (1 + usize::from(glu)), if columns == 1 { 256 } else { 64 });
                let tiles = GemvTiles { columns, outputs, lanes: 32 / columns, threads, subgroups };
                for &matrices in &matrices {
                    if matrices.experts.is_empty() || columns == 1 {
                        let matmul = matmul(&matrices);
                        kernels.push(Kernel::Gemv(Gemv { matmul, tiles, matrices }));
                    }
                }
            }
        }
    }
    for flags in 0..64 {
        let [rope, store, keys_rope, separate, kv_f32] = [1, 2, 4, 8, 16].map(|flag| flags & flag != 0);
        if rope || store {
            for pairing in ["interleaved", "halves"] {
                kernels.push(Kernel::Rope(Rope { rope, store, keys_rope, separate, kv_f32, pairing }));
            }
        }
    }
    let caps = Caps {
        subgroups: Some(Subgroups { min: 32, max: 32 }),
        coop_matrix: Some(16),
        workgroup_memory: 48 << 10,
        threads: 256,
    };
    for (share, k_dim, v_dim) in [
        (1, 1, 1),
        (1, 16, 16),
        (4, 64, 64),
        (4, 128, 128),
        (2, 128, 48),
        (2, 80, 96),
        (3, 48, 20),
        (4, 256, 256),
        (2, 37, 33),
    ] {
        let heads = policy::heads_per_workgroup(share, k_dim);
        for flags in 0..64 {
            let [kv_f32, split, rope, fresh, masked, capped] =
                [1, 2, 4, 8, 16, 32].map(|flag| flags & flag != 0);
            let sinks = capped != rope && !split;
            let halves = masked != split;
            let pairing = if halves { "halves" } else { "interleaved" };
            kernels.push(Kernel::Attention(Attention {
                heads,
                teams: policy::teams(k_dim),
                k_dim,
                v_dim,
                kv_f32,
                split,
                rope,
                fresh,
                masked,
                capped,
                alibi: kv_f32 && !capped,
                sinks,
                pairing,
            }));
        }
        for (kv_f32, masked) in [(false, false), (false, true), (true, false), (true, true)] {
            let (capped, sinks) = (kv_f32 == masked, masked);
            let flash = |coop| Kernel::Flash(Flash { k_dim, v_dim, kv_f32, masked, capped, sinks, coop });
            match policy::attention(k_dim, v_dim, kv_f32, caps) {
                policy::Attention::FlashCoop => kernels.extend([true, false].map(flash)),
                policy::Attention::Flash => kernels.push(flash(false)),
                policy::Attention::Rows => {}
            }
        }
        kernels.extend([true, false].map(|sinks| Kernel::Combine { v_dim, sinks }));
    }
    kernels
}

#[test]
fn kernels_are_valid_within_default_limits_and_translate_to_msl() {
    for kernel in kernels() {
        let source = kernel.source();
        let label = format!("{kernel:?}");
        let module = naga::front::wgsl::parse_str(&source)
            .unwrap_or_else(|error| panic!("{label}: {}\n{source}", error.emit_to_string(&source)));
        let has_coop = matches!(kernel, Kernel::GemmCoop(_) | Kernel::Flash(Flash { coop: true, .. }));
        let mut flags = Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        if let Kernel::F16Rows { .. } | Kernel::GemmCoop(_) | Kernel::Flash(Flash { coop: true, .. }) = kernel
        {
            flags |= Capabilities::SHADER_FLOAT16 | Capabilities::COOPERATIVE_MATRIX;
        }
        let info = Validator::new(ValidationFlags::all(), flags)
            .validate(&module)
            .unwrap_or_else(|error| panic!("{label}: {}", error.emit_to_string(&source)));

        let mut layouter = naga::proc::Layouter::default();
        layouter.update(module.to_ctx()).expect("a valid module");
        let (mut buffers, mut memory) = (Vec::new(), 0);
        for (_, variable) in module.global_variables.iter() {
            match variable.space {
                naga::AddressSpace::WorkGroup => {
                    let size = layouter[variable.ty].size;
                    assert!(
                        !has_coop || size.is_multiple_of(16),
                        "{label}: {:?} of {size} bytes",
                        variable.name
                    );
                    memory += size;
                }
                naga::AddressSpace::Private => {}
                _ => buffers.push((variable.binding.expect("a binding"), variable.space)),
            }
        }
        buffers.sort_by_key(|(binding, _)| binding.binding);
        let found: Vec<Access> = buffers
            .iter()
            .map(|(_, space)| match space {
                naga::AddressSpace::Uniform => Access::Constant,
                naga::AddressSpace::Storage { access } if access.contains(naga::StorageAccess::STORE) => {
                    Access::Write
                }
                _ => Access::Read,
            })
            .collect();
        assert_eq!(found, bindings(&source), "{label}");
        assert!(
            buffers.iter().enumerate().all(|(i, (b, _))| b.group == 0 && b.binding == i as u32),
            "{label}"
        );
        let storage = found.iter().filter(|&&access| access != Access::Constant).count();
        assert!(storage <= STORAGE_BUFFERS, "{label}: {storage} storage buffers");
        let max_memory = match &kernel {
            Kernel::GemmCoop(tiles) => policy::tile_bytes(tiles.tile, tiles.size) as u32,
            Kernel::Flash(Flash { k_dim, v_dim, coop: true, .. }) => {
                policy::flash_coop_bytes(*k_dim, *v_dim) as u32
            }
            _ => WORKGROUP_MEMORY,
        };
        assert!(memory <= max_memory, "{label}: {memory} bytes of workgroup memory");
        let threads: u32 = module.entry_points[0].workgroup_size.iter().product();
        assert!(threads <= THREADS, "{label}: {threads} threads");

        let resources = buffers.iter().enumerate().map(|(i, (binding, space))| {
            let is_written = matches!(space, naga::AddressSpace::Storage { access }
                if access.contains(naga::StorageAccess::STORE));
            (*binding, msl::BindTarget { buffer: Some(i as u8), mutable: is_written, ..Default::default() })
        });
        let resources = msl::EntryPointResources {
            resources: resources.collect(),
            sizes_buffer: Some(buffers.len() as u8),
            ..Default::default()
        };
        let options = msl::Options {
            lang_version: (2, 4),
            per_entry_point_map: [("main".to_owned(), resources)].into(),
            ..Default::default()
        };
        let pipeline = msl::PipelineOptions::default();
        let (metal, _) = msl::write_string(&module, &info, &options, &pipeline)
            .unwrap_or_else(|error| panic!("{label}: {error}"));
        assert!(metal.contains("kernel void"), "{label}");
    }
}
