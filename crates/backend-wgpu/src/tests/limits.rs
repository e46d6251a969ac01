//! Devices with lower limits than this machine's.

use std::collections::HashMap;

use backend::{
    Backend, Bucket, ConvertedWeights, Error, KvFormat, KvLayout, MemoryKind, Remedy, Taps, Weight,
};
use backend_reference::Reference;
use graph::{Builder, Mask, Store};
use quant::Format;
use testkit::conformance::random::nmse;
use testkit::conformance::{experts, known, layers, random, rows};
use testkit::whole::Whole;

use super::{Shared, candidate, shared};
use crate::device::Settings;

/// WebGPU's default limits, no subgroups, and no bounds checks, as in release builds.
fn minimal() -> Settings {
    Settings {
        max_limits: Some(wgpu::Limits::defaults()),
        subgroups: false,
        checks: false,
        ..Settings::default()
    }
}

static MINIMAL: Shared = Shared::new();

fn on_minimal() -> Box<dyn Backend> {
    candidate(&MINIMAL, minimal)
}

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

#[test]
fn a_minimal_device_computes_every_operation() {
    random::linear_with_many_columns(&on_minimal, &reference);
    random::linear_with_odd_sizes(&on_minimal, &reference);
    random::attention_of_many_rows(&on_minimal, &reference);
    random::attention_with_different_key_and_value_sizes(&on_minimal, &reference);
    known::embed_looks_up_rows(&on_minimal);
    known::rms_norm_uses_eps_and_does_not_clip(&on_minimal);
    known::rope_copies_the_other_columns(&on_minimal);
    known::attention_ignores_later_positions(&on_minimal);
    known::gate_gelu(&on_minimal);
    known::add_bias_broadcasts_one_row(&on_minimal);
    known::only_output_rows_are_computed(&on_minimal);
    known::greedy_tokens_and_top_tokens(&on_minimal);
    known::rms_norm_of_heads(&on_minimal);
    experts::route_is_the_softmax_of_the_top_logits(&on_minimal);
    known::attention_respects_its_mask(&on_minimal);
    known::attention_sees_later_rows(&on_minimal);
    experts::experts_of_odd_sizes(&on_minimal, &reference);
    layers::wide_layer(&on_minimal, &reference);
    known::attention_sinks_take_weight(&on_minimal);
    rows::head_linear_in_several_formats(&on_minimal, &reference);
    rows::row_wise_operations_in_a_chain(&on_minimal, &reference);
    experts::routers_of_all_kinds(&on_minimal, &reference);
    experts::experts_with_all_options(&on_minimal, &reference);
}

/// Logits of the model `name`, with a long prefill and then with short steps.
fn logits(name: &str, backend: Box<dyn Backend>) -> Vec<f32> {
    let case = testkit::cases().into_iter().find(|case| case.name == name).expect("a model of the goldens");
    let tokens = &case.tokens()[0][..48];
    let mut model = Whole::new(case.file(), backend, KvFormat::F16, tokens.len(), 32);
    let mut logits = model.logits(tokens, 32);
    logits.extend(model.logits(&tokens[..6], 3));
    logits
}

/// The output matrix fits in one binding of this device.
#[test]
fn a_minimal_device_computes_whole_models() {
    for name in ["Q4_K", "F32-qwen2"] {
        let Some(gpu) = shared(&MINIMAL, minimal) else { return };
        let error = nmse(&logits(name, reference()), &logits(name, Box::new(gpu)));
        assert!(error <= 1e-5, "{name}: NMSE {error:e}");
    }
}

/// A row of 256 F32 values is 1 KiB, so 512 rows need four shards of up to 160.
#[test]
fn weights_beyond_the_binding_limit_are_sharded() {
    let limits = wgpu::Limits {
        max_storage_buffer_binding_size: 160 << 10,
        max_buffer_size: 192 << 10,
        ..wgpu::Limits::defaults()
    };
    let device = Shared::new();
    let settings = || Settings { max_limits: Some(limits.clone()), ..Settings::default() };
    for name in ["F32-tied", "Q6_K"] {
        let Some(gpu) = shared(&device, settings) else { return };
        assert_eq!(gpu.device.limits.max_storage_buffer_binding_size, 160 << 10);
        let error = nmse(&logits(name, reference()), &logits(name, Box::new(gpu)));
        assert!(error <= 1e-5, "{name}: NMSE {error:e}");
    }
}

/// A matrix of experts in F32 takes up to 24 KiB, one of heads up to 50 KiB: a buffer of 140 KiB holds not all of them.
#[test]
fn experts_and_heads_beyond_the_binding_limit_are_sharded() {
    static SMALL: Shared = Shared::new();
    let limits = || wgpu::Limits { max_storage_buffer_binding_size: 140 << 10, ..wgpu::Limits::defaults() };
    let small = || candidate(&SMALL, || Settings { max_limits: Some(limits()), ..Settings::default() });
    experts::experts_of_odd_sizes(&small, &reference);
    experts::experts_with_all_options(&small, &reference);
    rows::head_linear_in_several_formats(&small, &reference);
}

#[test]
fn a_store_beyond_the_binding_limit_is_refused_with_a_remedy() {
    let mut g = Builder::new();
    let table = g.weight("table", 1, 8 * 128);
    let x = g.embed("x", table);
    let store = g.store(Store { heads: 8, k_dim: 128, v_dim: 128, mask: Mask::Causal });
    let y = g.attention("y", x, Some([x, x]), store, 8, 1.0);
    let y = g.output_rows("outputs", y);
    let graph = g.finish(y);
    let weights = HashMap::from([(
        "table".to_owned(),
        Weight::matrix(Format::F32, 1, 8 * 128, vec![0; 32 * 128].into()),
    )]);
    // One block more than 128 MiB: a block of 8 heads of 128 values in F16 is 64 KiB.
    for (blocks, fits) in [(2049, false), (3, true)] {
        let Some(gpu) = shared(&MINIMAL, minimal) else { return };
        let kv_layout = KvLayout::uniform(&graph, blocks, KvFormat::F16);
        let needed = gpu.requirements(&graph, &weights, &kv_layout, &[], Taps::None).map(|_| ());
        let loaded = Box::new(gpu).load(&graph, &weights, &kv_layout).map(|_| ());
        assert_eq!(needed, loaded);
        match loaded {
            Ok(()) => assert!(fits),
            Err(Error::OutOfMemory { what, bytes, memory: MemoryKind::Device, remedy }) => {
                assert!(!fits && what.contains("KV cache"), "{what}");
                assert_eq!((bytes, remedy), (2049 * (64 << 10), Remedy::SmallerContext));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Heads that exceed workgroup memory, and more rows than workgroups in a dispatch, are refused before allocation.
#[test]
fn oversized_heads_and_batches_are_refused_with_a_remedy() {
    let device = Shared::new();
    let needed = |dims: [usize; 2], rows: usize| {
        let gpu = shared(&device, Settings::default)?;
        let mut g = Builder::new();
        let [keys, values] = dims.map(|cols| g.weight(format!("table of {cols}"), 1, cols));
        let (k, v) = (g.embed("k", keys), g.embed("v", values));
        let store = g.store(Store { heads: 1, k_dim: dims[0], v_dim: dims[1], mask: Mask::Causal });
        let y = g.attention("y", k, Some([k, v]), store, 1, 1.0);
        let y = g.output_rows("outputs", y);
        let graph = g.finish(y);
        let weight = |cols: usize| Weight::matrix(Format::F32, 1, cols, vec![0; 4 * cols].into());
        let weights = HashMap::from(dims.map(|cols| (format!("table of {cols}"), weight(cols))));
        let kv_layout = KvLayout::uniform(&graph, 1, KvFormat::F16);
        let bucket = Bucket { rows, outputs: 1 };
        Some(gpu.requirements(&graph, &weights, &kv_layout, &[bucket], Taps::None).map(|_| ()))
    };
    let remedy = |found: Result<(), Error>| match found {
        Err(Error::OutOfMemory { memory: MemoryKind::Device, remedy, .. }) => Some(remedy),
        Ok(()) => None,
        Err(other) => panic!("{other}"),
    };
    for (dims, rows, expected) in [
        ([512, 2048], 8, None),
        ([4096, 64], 8, Some(Remedy::UseCpu)),
        ([64, 1 << 20], 8, Some(Remedy::UseCpu)),
        ([64, 32], 65536, Some(Remedy::SmallerBatch)),
    ] {
        let Some(found) = needed(dims, rows) else { return };
        assert_eq!(remedy(found), expected, "{dims:?}, {rows} rows");
    }
}

/// Keys of 5 values are padded to 6, values of 7 to 8.
#[test]
fn memory_use_includes_the_padding_of_odd_head_dims() {
    let Some(gpu) = shared(&Shared::new(), Settings::default) else { return };
    let mut g = Builder::new();
    let [keys, values] = [5, 7].map(|cols| g.weight(format!("table of {cols}"), 1, cols));
    let (k, v) = (g.embed("k", keys), g.embed("v", values));
    let store = g.store(Store { heads: 1, k_dim: 5, v_dim: 7, mask: Mask::Causal });
    let y = g.attention("y", k, Some([k, v]), store, 1, 1.0);
    let y = g.output_rows("outputs", y);
    let graph = g.finish(y);
    let weight = |cols: usize| Weight::matrix(Format::F32, 1, cols, vec![0; 4 * cols].into());
    let weights = HashMap::from([5, 7].map(|cols| (format!("table of {cols}"), weight(cols))));
    let kv_layout = KvLayout::uniform(&graph, 3, KvFormat::F16);
    let needed = gpu.requirements(&graph, &weights, &kv_layout, &[], Taps::None).expect("room");
    assert_eq!(needed.kv, 3 * 32 * (6 + 8) * 2);
}

/// Formats without kernels become F16, or F32 where F16 would overflow, and memory use reports which.
#[test]
fn weights_beyond_f16_become_f32() {
    let device = Shared::new();
    for format in [Format::Q4_1, Format::Q5_0, Format::Q2_K, Format::IQ4_NL] {
        let Some(gpu) = shared(&device, Settings::default) else { return };
        let (rows, cols) = (6, 256);
        let small = testkit::random_matrix(format, rows * cols, 0.1, 3);
        let large = testkit::random_matrix_beyond_f16(format, rows, cols, rows - 1);
        let mut graph = Builder::new();
        let [small_table, large_table] = ["small", "large"].map(|name| graph.weight(name, rows, cols));
        let (a, b) = (graph.embed("a", small_table), graph.embed("b", large_table));
        let both = graph.add("both", a, b);
        let outputs = graph.output_rows("outputs", both);
        let graph = graph.finish(outputs);
        let weight = |bytes: Vec<u8>| Weight::matrix(format, rows, cols, bytes.into());
        let weights =
            HashMap::from([("small".to_owned(), weight(small)), ("large".to_owned(), weight(large))]);
        let kv_layout = KvLayout::uniform(&graph, 1, KvFormat::F16);
        let bucket = Bucket { rows: 1, outputs: 1 };
        let needed =
            gpu.requirements(&graph, &weights, &kv_layout, &[bucket], Taps::None).expect("a good graph");
        let mut loaded = Box::new(gpu).load(&graph, &weights, &kv_layout).expect("a good graph");
        loaded.compile(bucket, Taps::None).expect("a good graph");
        let values = (rows * cols) as u64;
        let converted = |device_format, bytes| ConvertedWeights { format, device_format, bytes };
        let expected = [converted(Format::F32, 4 * values), converted(Format::F16, 2 * values)];
        assert_eq!(loaded.memory().weights_converted, expected);
        assert_eq!(needed.weights_converted, expected);
    }
}
