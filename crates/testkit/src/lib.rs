//! GGUF files made for tests, expected values for them, and where tests find shared material.

mod cases;
pub mod conformance;
pub mod families;
pub mod goldens;
pub mod judge;
pub mod llama;
pub mod malformed;
mod random;
mod vocabulary;
mod weights;
pub mod whole;

pub use cases::{Case, cases};
pub use vocabulary::VOCAB;

/// `values` random values of standard deviation about `deviation`, as stored in `format`; the same for
/// the same `seed`.
///
/// # Panics
/// When `values` are not whole blocks.
pub fn random_matrix(format: quant::Format, values: usize, deviation: f32, seed: u64) -> Vec<u8> {
    weights::matrix(format, values, deviation, random::Random::new(seed, format.name()))
}

/// The same of `rows` rows, which from row `first` on have scales as large as F16 allows, or numbers that F16 has not.
pub fn random_matrix_beyond_f16(format: quant::Format, rows: usize, cols: usize, first: usize) -> Vec<u8> {
    let mut bytes = random_matrix(format, rows * cols, 0.1, 3);
    let at = bytes.len() / rows * first;
    weights::enlarge(format, &mut bytes[at..]);
    bytes
}

use std::path::PathBuf;

/// A file or folder of the material that stands beside a checkout (`../shared`), when it is there.
///
/// Tests that need it are extra: without it they say that they were skipped and pass. With
/// `RUSTORCH_REQUIRE_SHARED=1` its absence is a failure instead.
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
    eprintln!("skipped: {} is not here", found.display());
    None
}
