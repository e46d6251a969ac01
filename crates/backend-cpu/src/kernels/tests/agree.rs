//! Vector kernels against scalar ones: integers are equal, floats differ only by rounding. `packed/mod.rs` tests GEMV and
//! GEMM, `lanes/mod.rs` the vector operations.

use backend::KvFormat;
use graph::{Activation, Glu, Map, Mask, NormKind, Pairing};
use quant::Format;

use super::calls::{Attention, Calls, FP8, MIXED, QUANTISED};
use super::{Isa, kernels};
use crate::tests::guard::Side;

/// NMSE limit for rounding.
const LIMIT: f64 = 1e-10;

/// Compares `call` on each vector instruction set with scalar code.
fn compare_to_scalar<T>(call: impl Fn(Calls) -> T, check: impl Fn(&str, &T, &T)) {
    let of = |isa| Some(call(Calls { kernels: kernels(isa)?, side: Side::End(0) }));
    let scalar = of(Isa::Scalar).expect("every CPU supports it");
    for isa in [Isa::Avx2, Isa::Avx512] {
        if let Some(found) = of(isa) {
            check(isa.name(), &scalar, &found);
        }
    }
}

fn alike(what: &str, call: impl Fn(Calls) -> Vec<f32>) {
    compare_to_scalar(call, |isa, scalar, found| {
        let square = |x: f32| f64::from(x) * f64::from(x);
        let error: f64 = scalar.iter().zip(found).map(|(a, b)| square(a - b)).sum();
        let nmse = error / scalar.iter().map(|&a| square(a)).sum::<f64>();
        assert!(scalar.len() == found.len() && nmse < LIMIT, "{isa}, {what}: NMSE {nmse:e} to scalar code");
    });
}

/// Panels depend on the instruction set's tile; the contents of a row do not.
#[test]
fn activations_have_the_same_bits() {
    for format in Format::ALL {
        let cols = 4 * format.block_len().max(32);
        for rows in [1, 2, 9, 64] {
            let sorted = |calls: Calls| {
                let mut words = calls.pack(calls.kernels.linear(format).form, rows, cols).to_vec();
                words.sort_unstable();
                words
            };
            compare_to_scalar(sorted, |isa, scalar, found| {
                assert!(scalar == found, "{isa}, {format}, {rows} rows");
            });
            // A single row has one order whatever the tile.
            let one = |calls: Calls| calls.pack(calls.kernels.linear(format).form, 1, cols).to_vec();
            compare_to_scalar(one, |isa, scalar, found| assert!(scalar == found, "{isa}, {format}, one row"));
        }
    }
}

#[test]
fn norms_maps_gates_and_rope_agree() {
    for len in [1, 15, 16, 17, 70, 256, 2048] {
        alike(&format!("rms_norm of {len}"), |calls| calls.norm(NormKind::Rms, len));
        // A single value minus its mean is 0.
        alike(&format!("layer_norm of {}", len + 1), |calls| calls.norm(NormKind::Layer, len + 1));
        for map in [Map::Scale(0.3), Map::Softcap(30.0), Map::Act(Activation::GeluTanh)] {
            alike(&format!("{map:?} of {len}"), |calls| calls.map(map, len));
        }
        for (act, limit) in Activation::ALL.into_iter().zip([None, Some(7.0)].into_iter().cycle()) {
            let glu = Glu { act, limit };
            alike(&format!("{glu} of {len}"), |calls| calls.gate(glu, len));
        }
    }
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        for (head_dim, dims) in [(2, 2), (48, 32), (64, 64), (128, 128)] {
            let what = format!("rotation of {dims} of {head_dim}, {pairing:?}");
            alike(&what, |calls| calls.rope(pairing, 4, head_dim, dims));
        }
    }
}

/// Every instruction set against the formula in f64.
fn beside_exact(exact: &[f64], what: &str, call: impl Fn(Calls) -> Vec<f32>) {
    for isa in Isa::ALL {
        let Some(kernels) = kernels(isa) else { continue };
        let found = call(Calls { kernels, side: Side::End(0) });
        let error: f64 = exact.iter().zip(&found).map(|(a, &b)| (a - f64::from(b)).powi(2)).sum();
        let nmse = error / exact.iter().map(|a| a * a).sum::<f64>();
        assert!(exact.len() == found.len() && nmse < LIMIT, "{}, {what}: NMSE {nmse:e}", isa.name());
    }
}

/// The formula of Hendrycks and Gimpel in f64, over the range where it is neither 0 nor the identity, and beyond.
#[test]
fn gelu_matches_its_formula() {
    let gates: Vec<f32> = (-12_000..=12_000).map(|i| i as f32 * 1e-3).collect();
    let ups: Vec<f32> = (0..gates.len()).map(|i| (i % 7) as f32 - 3.3).collect();
    let of = |&x: &f32| {
        let x = f64::from(x);
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
    };
    let exact: Vec<f64> = gates.iter().zip(&ups).map(|(gate, &up)| of(gate) * f64::from(up)).collect();
    beside_exact(&exact, "gelu", |calls| {
        let mut y = vec![f32::NAN; gates.len()];
        (calls.kernels.gate)(Activation::GeluTanh.into(), &mut y, &gates, &ups);
        y
    });
    for isa in Isa::ALL {
        let Some(kernels) = kernels(isa) else { continue };
        let of = |gate: f32| {
            let mut y = [f32::NAN];
            (kernels.gate)(Activation::GeluTanh.into(), &mut y, &[gate], &[1.0]);
            y[0]
        };
        for large in [20.0, 1e3, 1e13, 1e20, f32::MAX] {
            assert_eq!(of(large), large, "{}", isa.name());
            assert!(of(-large).abs() < 1e-30, "{}, -{large}: {}", isa.name(), of(-large));
        }
        assert!(of(f32::NAN).is_nan() && of(0.0) == 0.0 && of(f32::INFINITY) == f32::INFINITY);
    }
}

#[test]
fn attention_agrees() {
    for format in [KvFormat::F16, KvFormat::F32, FP8, MIXED, QUANTISED] {
        for (rows, positions) in [(1, 1), (1, 40), (8, 32), (9, 513), (33, 1100)] {
            for (heads, kv_heads, k_dim, v_dim) in [(8, 2, 64, 64), (3, 3, 128, 128), (16, 1, 20, 52)] {
                for (mask, cap) in [
                    (Mask::Causal, None),
                    (Mask::Window(5), Some(2.0)),
                    (Mask::Window(300), None),
                    (Mask::Chunk(70), None),
                    (Mask::Full, Some(2.0)),
                    (Mask::Around(40), None),
                ] {
                    let shape =
                        Attention { format, rows, positions, heads, kv_heads, k_dim, v_dim, mask, cap };
                    alike(&format!("{shape:?}"), |calls| calls.attend(shape));
                }
            }
        }
    }
}

/// Windows that begin and end anywhere in blocks and chunks, for one row and many, some larger than the sequence.
#[test]
fn attention_matches_its_formula() {
    let exact = |shape| {
        let kernels = kernels(Isa::Scalar).expect("every CPU supports it");
        Calls { kernels, side: Side::End(0) }.attend_exactly(shape)
    };
    for (rows, positions) in [(1, 1), (1, 545), (9, 530), (64, 1100), (100, 100)] {
        let windows = [1, 2, 31, 32, 33, 513, 5000];
        let masks = windows.into_iter().flat_map(|n| [Mask::Window(n), Mask::Chunk(n), Mask::Around(n)]);
        for mask in masks.chain([Mask::Causal, Mask::Full]) {
            for (heads, kv_heads, cap) in [(8, 2, None), (3, 3, Some(5.0)), (5, 1, None)] {
                let (k_dim, v_dim, format) = (24, 20, KvFormat::F32);
                let shape = Attention { format, rows, positions, heads, kv_heads, k_dim, v_dim, mask, cap };
                beside_exact(&exact(shape), &format!("{shape:?}"), |calls| calls.attend(shape));
            }
        }
    }
}
