//! Instruction sets beside plain Rust, kernel by kernel: integers are equal, floats differ by rounding
//! alone. Products are held against each other in `packed/mod.rs`, vectors in `lanes/mod.rs`.

use backend::KvFormat;
use graph::Pairing;
use quant::Format;

use super::calls::{Attention, Calls};
use super::{Isa, kernels};
use crate::guard::Side;

/// NMSE that rounding may cost.
const LIMIT: f64 = 1e-10;

/// What plain Rust and each vector instruction set give for `call`: all of them, then two by two.
fn beside_plain<T>(call: impl Fn(Calls) -> T, check: impl Fn(&str, &T, &T)) {
    let of = |isa| Some(call(Calls { kernels: kernels(isa)?, side: Side::End(0) }));
    let plain = of(Isa::Scalar).expect("every processor has it");
    for isa in [Isa::Avx2, Isa::Avx512] {
        if let Some(found) = of(isa) {
            check(isa.name(), &plain, &found);
        }
    }
}

fn alike(what: &str, call: impl Fn(Calls) -> Vec<f32>) {
    beside_plain(call, |isa, plain, found| {
        let square = |x: f32| f64::from(x) * f64::from(x);
        let error: f64 = plain.iter().zip(found).map(|(a, b)| square(a - b)).sum();
        let nmse = error / plain.iter().map(|&a| square(a)).sum::<f64>();
        assert!(plain.len() == found.len() && nmse < LIMIT, "{isa}, {what}: NMSE {nmse:e} to plain Rust");
    });
}

/// Rows are packed for a tile, which is another for each instruction set; what is in a row is the same.
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
            beside_plain(sorted, |isa, plain, found| {
                assert!(plain == found, "{isa}, {format}, {rows} rows");
            });
            // One row has one order whatever the tile.
            let one = |calls: Calls| calls.pack(calls.kernels.linear(format).form, 1, cols).to_vec();
            beside_plain(one, |isa, plain, found| assert!(plain == found, "{isa}, {format}, one row"));
        }
    }
}

#[test]
fn norms_gates_and_turns_agree() {
    for len in [1, 15, 16, 17, 70, 256, 2048] {
        alike(&format!("rms_norm of {len}"), |calls| calls.rms_norm(len));
        alike(&format!("swiglu of {len}"), |calls| calls.swiglu(len));
    }
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        for (head_dim, dims) in [(2, 2), (48, 32), (64, 64), (128, 128)] {
            let what = format!("rotation of {dims} of {head_dim}, {pairing:?}");
            alike(&what, |calls| calls.rotate(pairing, 4, head_dim, dims));
        }
    }
}

#[test]
fn attention_agrees() {
    for format in [KvFormat::F16, KvFormat::F32] {
        for (rows, positions) in [(1, 1), (1, 40), (8, 32), (9, 513), (33, 1100)] {
            for (heads, kv_heads, k_dim, v_dim) in [(8, 2, 64, 64), (3, 3, 128, 128), (16, 1, 20, 52)] {
                let shape = Attention { format, rows, positions, heads, kv_heads, k_dim, v_dim };
                alike(&format!("{shape:?}"), |calls| calls.attend(shape));
            }
        }
    }
}
