//! Every kernel as Metal and Vulkan will get it, where neither is there.

use naga::back::msl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::*;
use crate::formats::Kept;

/// What every device has, by WebGPU's default limits; Apple's are no smaller (Metal feature set tables: 31 buffers, 32 KB
/// and 1024 threads of a threadgroup).
const STORAGE_BUFFERS: usize = 8;
const WORKGROUP_MEMORY: u32 = 16 << 10;
const THREADS: u32 = 256;

/// Kernels of all kinds and formats: what models ask for, and more.
fn kernels() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for kept in Kept::ALL {
        kernels.push(Kernel::Embed(Embed { format: kept.name() }));
    }
    for operation in ["rms_norm", "add", "swiglu", "take"] {
        kernels.push(Kernel::Rows(Rows { operation }));
    }
    let formats = Kept::ALL.map(Kept::name);
    let mut lists: Vec<Vec<&str>> = formats.iter().map(|&format| vec![format]).collect();
    lists.extend(formats.iter().map(|&format| vec![format, "q6_k"]));
    lists.extend(formats.iter().map(|&format| vec![format, format, "q6_k"]));
    for parts in lists {
        for flags in 0..16 {
            let [norm, glu, rest, ragged] = [1, 2, 4, 8].map(|flag| flags & flag != 0);
            if glu && (parts.len() != 2 || rest) {
                continue;
            }
            let products = Products { parts: parts.clone(), norm, glu, rest, ragged };
            kernels.push(Kernel::Matmul(products.clone()));
            for (columns, lanes, subgroups) in [(1, 64, true), (1, 64, false), (2, 8, false), (8, 64, true)] {
                let outputs = if columns == 1 && !glu { 4 } else { 2 };
                let products = products.clone();
                kernels.push(Kernel::Linear(Linear {
                    products,
                    columns,
                    outputs,
                    lanes,
                    subgroups,
                    threads: 64,
                }));
            }
        }
    }
    for flags in 0..32 {
        let [turn, store, keys_turn, separate, wide] = [1, 2, 4, 8, 16].map(|flag| flags & flag != 0);
        if turn || store {
            for pairing in ["interleaved", "halves"] {
                kernels.push(Kernel::Rotate(Rotate { turn, store, keys_turn, separate, wide, pairing }));
            }
        }
    }
    for (heads, k_dim, v_dim) in
        [(1, 1, 1), (4, 64, 64), (8, 128, 128), (3, 48, 20), (4, 256, 256), (2, 37, 33)]
    {
        for (wide, split) in [(false, false), (false, true), (true, false), (true, true)] {
            kernels.push(Kernel::Attention(Attention { heads, k_dim, v_dim, wide, split }));
        }
        kernels.push(Kernel::Combine(Combine { v_dim }));
    }
    kernels
}

#[test]
fn kernels_are_valid_within_every_devices_limits_and_translate_to_metal() {
    for kernel in kernels() {
        let source = kernel.source();
        let label = format!("{kernel:?}");
        let module = naga::front::wgsl::parse_str(&source)
            .unwrap_or_else(|error| panic!("{label}: {}\n{source}", error.emit_to_string(&source)));
        let flags = Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        let info = Validator::new(ValidationFlags::all(), flags)
            .validate(&module)
            .unwrap_or_else(|error| panic!("{label}: {}", error.emit_to_string(&source)));

        let mut layouter = naga::proc::Layouter::default();
        layouter.update(module.to_ctx()).expect("a valid module");
        let (mut buffers, mut memory) = (Vec::new(), 0);
        for (_, variable) in module.global_variables.iter() {
            match variable.space {
                naga::AddressSpace::WorkGroup => memory += layouter[variable.ty].size,
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
        assert_eq!(found, kernel.bindings(), "{label}");
        assert!(
            buffers.iter().enumerate().all(|(i, (b, _))| b.group == 0 && b.binding == i as u32),
            "{label}"
        );
        let storage = found.iter().filter(|&&access| access != Access::Constant).count();
        assert!(storage <= STORAGE_BUFFERS, "{label}: {storage} storage buffers");
        assert!(memory <= WORKGROUP_MEMORY, "{label}: {memory} bytes of workgroup memory");
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
