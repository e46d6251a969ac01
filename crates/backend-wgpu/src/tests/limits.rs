//! Devices that can less than the one that is there.

use backend::{Backend, Bucket, Error, KvFormat, KvLayout, Plain, Taps, Weight};
use backend_reference::Reference;
use graph::Builder;
use quant::Format;
use testkit::conformance::random::nmse;
use testkit::conformance::{known, layers, random};
use testkit::whole::Whole;

use super::{Shared, candidate, shared};
use crate::device::Settings;

/// As little as every device has that WebGPU runs on, no subgroups, and kernels as release builds have them.
fn least() -> Settings {
    Settings { most: Some(wgpu::Limits::defaults()), subgroups: false, checks: false, ..Settings::default() }
}

static LEAST: Shared = Shared::new();

fn on_least() -> Box<dyn Backend> {
    candidate(&LEAST, least)
}

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

#[test]
fn the_least_device_computes_every_operation() {
    random::linear_with_many_columns(&on_least, &reference);
    random::linear_with_odd_sizes(&on_least, &reference);
    random::attention_of_many_rows(&on_least, &reference);
    random::attention_with_values_of_another_width(&on_least, &reference);
    known::embed_takes_the_tokens_rows(&on_least);
    known::rms_norm_uses_its_eps_and_keeps_large_values(&on_least);
    known::rope_leaves_the_columns_beyond_its_own(&on_least);
    known::attention_does_not_see_what_comes_later(&on_least);
    known::swiglu_gates_with_silu(&on_least);
    known::add_bias_adds_one_row_to_each(&on_least);
    known::only_wanted_rows_are_computed(&on_least);
    layers::a_wide_layer(&on_least, &reference);
}

/// Logits of some positions of the model `name`, in steps of many rows, then of few.
fn logits(name: &str, backend: Box<dyn Backend>) -> Vec<f32> {
    let case = testkit::cases().into_iter().find(|case| case.name == name).expect("a model of the goldens");
    let tokens = &case.tokens()[0][..48];
    let mut model = Whole::new(case.file(), backend, KvFormat::F16, tokens.len(), 32);
    let mut logits = model.logits(tokens, 32);
    logits.extend(model.logits(&tokens[..6], 3));
    logits
}

/// Its output matrix is in one piece on the device that is there.
#[test]
fn the_least_device_computes_whole_models() {
    for name in ["F32", "Q4_K", "F32-qwen2"] {
        let Some(gpu) = shared(&LEAST, least) else { return };
        let error = nmse(&logits(name, reference()), &logits(name, Box::new(gpu)));
        assert!(error <= 1e-5, "{name}: NMSE {error:e}");
    }
}

/// 256 columns of F32 are 1 KiB: of 512 rows four pieces of up to 160.
#[test]
fn weights_longer_than_a_binding_are_split() {
    let limits = wgpu::Limits {
        max_storage_buffer_binding_size: 160 << 10,
        max_buffer_size: 192 << 10,
        ..wgpu::Limits::defaults()
    };
    let device = Shared::new();
    let settings = || Settings { most: Some(limits.clone()), ..Settings::default() };
    for name in ["F32", "F32-tied", "Q6_K", "F32-qwen2"] {
        let Some(gpu) = shared(&device, settings) else { return };
        assert_eq!(gpu.device.limits.max_storage_buffer_binding_size, 160 << 10);
        let error = nmse(&logits(name, reference()), &logits(name, Box::new(gpu)));
        assert!(error <= 1e-5, "{name}: NMSE {error:e}");
    }
}

#[test]
fn what_a_device_cannot_bind_is_refused_with_what_to_do() {
    let Some(mut gpu) = shared(&LEAST, least) else { return };
    // 128 MiB and a page: 32 positions of 8 heads of 128 numbers in F16 are 64 KiB.
    let layout =
        KvLayout { layers: 1, kv_heads: 8, k_dim: 128, v_dim: 128, pages: 2049, format: KvFormat::F16 };
    match gpu.allocate_kv(layout) {
        Err(Error::OutOfMemory { what, bytes, hint }) => {
            assert!(what.contains("K/V cache"), "{what}");
            assert_eq!(bytes, 2049 * (64 << 10));
            assert!(hint.contains("context"), "{hint}");
        }
        other => panic!("{other:?}"),
    }
    gpu.allocate_kv(KvLayout { pages: 3, ..layout }).expect("room for a small one");
}

/// Formats without kernels are F16 as a rule; a matrix with numbers beyond that is F32, and told as such.
#[test]
fn numbers_beyond_f16_are_kept_and_told() {
    let device = Shared::new();
    for format in [Format::Q4_1, Format::Q5_0, Format::Q2_K, Format::IQ4_NL] {
        let Some(mut gpu) = shared(&device, Settings::default) else { return };
        let (rows, cols) = (6, 256);
        let small = testkit::random_matrix(format, rows * cols, 0.1, 3);
        let weights =
            [("small", small), ("large", testkit::random_matrix_beyond_f16(format, rows, cols, rows - 1))];
        let mut graph = Builder::new();
        let tables = weights.each_ref().map(|(name, _)| graph.weight(*name, rows, cols));
        let [small, large] =
            [("a", tables[0]), ("b", tables[1])].map(|(name, table)| graph.embed(name, table));
        let both = graph.add("both", small, large);
        let wanted = graph.take_rows("wanted", both);
        let graph = graph.finish(wanted);
        for (name, bytes) in weights {
            gpu.load(name, Weight { format, rows, cols, bytes: bytes.into() }).expect("a good weight");
        }
        gpu.compile(&graph, Bucket { rows: 1, wanted: 1 }, Taps::None).expect("a good graph");
        let numbers = (rows * cols) as u64;
        let kept = |kept, bytes| Plain { format, kept, bytes };
        let expected = [kept(Format::F32, 4 * numbers), kept(Format::F16, 2 * numbers)];
        assert_eq!(gpu.memory().weights_plain, expected);
    }
}
