//! Committed results of outside implementations on [`cases`](crate::cases()): an exact forward pass in
//! float64 and llama.cpp. `tools/oracle/README.md` says how they are made.
//!
//! All functions panic when a file is missing or not what it should be: it is part of the checkout.

use std::path::PathBuf;

/// Token sequences of the goldens.
pub const SEQUENCES: usize = 16;

/// Positions of each sequence.
pub const POSITIONS: usize = 256;

/// Columns of the exact logits that are kept of every position.
pub const COLUMNS: usize = 2;

/// The token ids for random models; every sequence starts at position 0.
pub fn tokens() -> Vec<[u32; POSITIONS]> {
    sequences("tokens")
}

/// The beginnings of chats for the demo model, in phrasings that it was not trained on.
pub fn demo_tokens() -> Vec<[u32; POSITIONS]> {
    sequences("demo.tokens")
}

fn sequences(name: &str) -> Vec<[u32; POSITIONS]> {
    let ids: Vec<u32> = read(name, "<u4", &[SEQUENCES, POSITIONS], u32::from_le_bytes);
    ids.as_chunks().0.to_vec()
}

/// Positions of the sequence of [`long_tokens`].
pub const LONG: usize = 300;

/// The token ids for the models of all families: more than windows and pages of the K/V cache hold.
pub fn long_tokens() -> Vec<u32> {
    read("long.tokens", "<u4", &[1, LONG], u32::from_le_bytes)
}

/// The [`columns`] of the exact logits at each position of [`long_tokens`], which is sequence 0 to them.
pub fn long_exact_logits(model: &str) -> Vec<[f32; COLUMNS]> {
    let logits = read(&format!("{model}.long"), "<f4", &[LONG, COLUMNS], f32::from_le_bytes);
    logits.as_chunks().0.to_vec()
}

/// KL(exact ‖ llama.cpp) in nats of each position of the sequences, one sequence after the other.
pub fn llama_cpp_kl(model: &str) -> Vec<f32> {
    read(&format!("{model}.kl"), "<f4", &[SEQUENCES * POSITIONS], f32::from_le_bytes)
}

/// The token with llama.cpp's largest logit at each position, one sequence after the other.
pub fn llama_cpp_top1(model: &str) -> Vec<u32> {
    read(&format!("{model}.top1"), "<u2", &[SEQUENCES * POSITIONS], |b| u16::from_le_bytes(b).into())
}

/// The [`columns`] of the exact logits at each position, one sequence after the other.
pub fn exact_logits(model: &str) -> Vec<[f32; COLUMNS]> {
    let logits =
        read(&format!("{model}.exact"), "<f4", &[SEQUENCES * POSITIONS, COLUMNS], f32::from_le_bytes);
    logits.as_chunks().0.to_vec()
}

/// The tokens, of `n_vocab`, whose logits [`exact_logits`] holds at a position of a sequence: a rule by
/// which every token of a random model is met in every sequence, at positions that differ from sequence
/// to sequence.
pub fn columns(sequence: usize, position: usize, n_vocab: usize) -> [usize; COLUMNS] {
    std::array::from_fn(|j| (37 * position + 31 * sequence + 256 * j) % n_vocab)
}

/// The values of a committed `.npy` file of this element type and shape.
fn read<const N: usize, T>(name: &str, dtype: &str, shape: &[usize], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens").join(format!("{name}.npy"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parsed = npy(&file, dtype, shape).and_then(|data| match data.as_chunks() {
        (values, []) if values.len() == shape.iter().product() => Some(values),
        _ => None,
    });
    let values = parsed.unwrap_or_else(|| panic!("{} is not an array {shape:?} of {dtype}", path.display()));
    values.iter().map(|bytes| value(*bytes)).collect()
}

/// The data of a version 1 `.npy` file, when it is in C order and of this element type and shape.
fn npy<'a>(file: &'a [u8], dtype: &str, shape: &[usize]) -> Option<&'a [u8]> {
    let (len, rest) = file.strip_prefix(b"\x93NUMPY\x01\x00")?.split_first_chunk()?;
    let (header, data) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    let shape = if let [only] = &dims[..] { format!("{only},") } else { dims.join(", ") };
    let expected = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}");
    (header.trim_ascii() == expected.as_bytes()).then_some(data)
}
