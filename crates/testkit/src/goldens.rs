//! Committed results of external implementations for all [`cases`](crate::cases()): an exact forward pass in float64,
//! and llama.cpp. `tools/oracle/README.md` says how they were made.
//!
//! All functions panic if a file, which is part of the checkout, is missing or invalid.

use std::path::PathBuf;

/// Number of token sequences.
pub const SEQUENCES: usize = 16;

/// Positions of each sequence.
pub const POSITIONS: usize = 256;

/// Columns of the exact logits stored per position.
pub const COLUMNS: usize = 2;

/// Token ids for random models; every sequence starts at position 0.
pub fn tokens() -> Vec<[u32; POSITIONS]> {
    sequences("tokens")
}

/// Token ids for the demo model: beginnings of chats with phrasings outside its training data.
pub fn demo_tokens() -> Vec<[u32; POSITIONS]> {
    sequences("demo.tokens")
}

fn sequences(name: &str) -> Vec<[u32; POSITIONS]> {
    let ids: Vec<u32> = read(name, "<u4", &[SEQUENCES, POSITIONS], u32::from_le_bytes);
    ids.as_chunks().0.to_vec()
}

/// Positions of [`long_tokens`].
pub const LONG: usize = 300;

/// Token ids for the models of all families, longer than their windows and a page of the KV cache.
pub fn long_tokens() -> Vec<u32> {
    read("long.tokens", "<u4", &[1, LONG], u32::from_le_bytes)
}

/// The [`columns`] of the exact logits at each position of [`long_tokens`], as sequence 0.
pub fn long_exact_logits(model: &str) -> Vec<[f32; COLUMNS]> {
    let logits = read(&format!("{model}.long"), "<f4", &[LONG, COLUMNS], f32::from_le_bytes);
    logits.as_chunks().0.to_vec()
}

/// The [`columns`] of the exact embedding of each token of [`long_tokens`], as sequence 0.
pub fn exact_rows(model: &str) -> Vec<[f32; COLUMNS]> {
    let rows = read(&format!("{model}.rows"), "<f4", &[LONG, COLUMNS], f32::from_le_bytes);
    rows.as_chunks().0.to_vec()
}

/// The exact embeddings of [`long_tokens`], `[3, width]`: by mean, first and last row.
pub fn exact_pooled(model: &str, width: usize) -> Vec<f32> {
    read(&format!("{model}.pooled"), "<f4", &[3, width], f32::from_le_bytes)
}

/// The exact scores of a reranker for [`long_tokens`].
pub fn exact_scores(model: &str, labels: usize) -> Vec<f32> {
    read(&format!("{model}.rank"), "<f4", &[labels], f32::from_le_bytes)
}

/// KL(exact ‖ llama.cpp) in nats per position, sequences concatenated.
pub fn llama_cpp_kl(model: &str) -> Vec<f32> {
    read(&format!("{model}.kl"), "<f4", &[SEQUENCES * POSITIONS], f32::from_le_bytes)
}

/// llama.cpp's top token per position, sequences concatenated.
pub fn llama_cpp_top1(model: &str) -> Vec<u32> {
    read(&format!("{model}.top1"), "<u2", &[SEQUENCES * POSITIONS], |b| u16::from_le_bytes(b).into())
}

/// The [`columns`] of the exact logits per position, sequences concatenated.
pub fn exact_logits(model: &str) -> Vec<[f32; COLUMNS]> {
    let logits =
        read(&format!("{model}.exact"), "<f4", &[SEQUENCES * POSITIONS, COLUMNS], f32::from_le_bytes);
    logits.as_chunks().0.to_vec()
}

/// The tokens, out of `n_vocab`, whose logits [`exact_logits`] has at a position of a sequence. Each sequence covers
/// every token of a random model, at positions that differ between sequences.
pub fn columns(sequence: usize, position: usize, n_vocab: usize) -> [usize; COLUMNS] {
    std::array::from_fn(|j| (37 * position + 31 * sequence + 256 * j) % n_vocab)
}

/// Reads a committed `.npy` file of this element type and shape.
fn read<const N: usize, T>(name: &str, dtype: &str, shape: &[usize], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens").join(format!("{name}.npy"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parsed = npy(&file, dtype, shape).and_then(|data| match data.as_chunks() {
        (values, []) if values.len() == shape.iter().product::<usize>() => Some(values),
        _ => None,
    });
    let values = parsed.unwrap_or_else(|| panic!("{} is not an array {shape:?} of {dtype}", path.display()));
    values.iter().map(|bytes| value(*bytes)).collect()
}

/// The data of a version 1 `.npy` file, if it is in C order and of this element type and shape.
fn npy<'a>(file: &'a [u8], dtype: &str, shape: &[usize]) -> Option<&'a [u8]> {
    let (len, rest) = file.strip_prefix(b"\x93NUMPY\x01\x00")?.split_first_chunk()?;
    let (header, data) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    let shape = if let [only] = &dims[..] { format!("{only},") } else { dims.join(", ") };
    let expected = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}");
    (header.trim_ascii() == expected.as_bytes()).then_some(data)
}
