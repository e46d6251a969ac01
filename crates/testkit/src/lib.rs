//! GGUF files for tests, expected values for them, a server that has them, and access to shared material.

pub mod accelerators;
pub mod any_model;
mod cases;
pub mod conformance;
mod draw;
pub mod fixtures;
pub mod goldens;
pub mod hub;
pub mod judge;
pub mod malformed;
pub mod one_step;
pub mod shards;
pub mod whole;
mod wrapped;

pub use cases::{Case, cases};
pub use draw::{chosen, drawn, is_drawn, token};
pub use synth::SMALL_VOCAB as VOCAB;
pub use wrapped::wrapped;

/// Random values, whole blocks of `format`, with approximately this standard deviation, determined by `seed`.
pub fn random_matrix(format: quant::Format, values: usize, deviation: f32, seed: u64) -> Vec<u8> {
    synth::matrix(format, values, deviation, synth::Random::new(seed, format.name()))
}

/// A random matrix whose rows from `first` on have maximum F16 scales, or values beyond F16.
pub fn random_matrix_beyond_f16(format: quant::Format, rows: usize, cols: usize, first: usize) -> Vec<u8> {
    let mut bytes = random_matrix(format, rows * cols, 0.1, 3);
    let at = bytes.len() / rows * first;
    synth::enlarge(format, &mut bytes[at..]);
    bytes
}

/// The `k` tokens with the largest logits, best first, the lower id first among equals. Minus infinity is none of them; a row with
/// NaN or plus infinity has none.
pub fn best(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
    if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
        return Vec::new();
    }
    let mut all: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    all.retain(|(_, logit)| *logit > f32::NEG_INFINITY);
    // Stable: equal logits stay in the order of their ids.
    all.sort_by(|(_, a), (_, b)| b.partial_cmp(a).expect("numbers"));
    all.truncate(k);
    all
}

use std::path::PathBuf;

/// A file or folder of the optional material beside a checkout (`../shared`), if it exists.
///
/// Tests that need it print that they are skipped and pass without it. With `RUSTORCH_REQUIRE_SHARED=1` they fail
/// instead.
pub fn shared(path: &str) -> Option<PathBuf> {
    let found = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if found.exists() {
        return Some(found);
    }
    assert!(
        std::env::var_os("RUSTORCH_REQUIRE_SHARED").is_none(),
        "{} is missing and RUSTORCH_REQUIRE_SHARED is set",
        found.display()
    );
    eprintln!("skipped: {} does not exist", found.display());
    None
}
