//! Single operations on random inputs, compared with the reference backend.

use backend::{BlockTable, KV_BLOCK, KvFormat, KvType, Row, Sequence, Step};
use graph::{Activation, Mask, Score, Store, WeightId};
use quant::{E4M3, Format};
use synth::Random;

use super::Make;
pub use super::net::nmse;
use super::net::{Net, compare, normal, store};

/// NMSE limit of one operation with 8-bit activations.
const QUANTIZED: f64 = 5e-4;

/// NMSE limit of one operation with f32 activations.
pub(super) const FLOAT: f64 = 1e-6;

const SEED: u64 = 11;

/// Vocabulary of attention inputs, and blocks of the store.
const TOKENS: usize = 500;
const BLOCKS: usize = 48;

/// Every format, with one activation row and several.
pub fn linear_in_every_format(make: Make<'_>, oracle: Make<'_>) {
    for format in Format::ALL {
        linear(make, oracle, format, 512, 70);
    }
}

/// Sizes that are not a multiple of a vector, and single columns and outputs.
pub fn linear_with_odd_sizes(make: Make<'_>, oracle: Make<'_>) {
    for (format, cols, outputs) in [
        (Format::F32, 1, 1),
        (Format::F32, 37, 3),
        (Format::F16, 43, 33),
        (Format::BF16, 75, 2),
        (Format::Q8_0, 32, 1),
        (Format::Q4_0, 96, 65),
        (Format::Q6_K, 256, 1),
        (Format::Q5_1, 32, 1),
        (Format::Q2_K, 256, 3),
        (Format::NVFP4, 192, 5),
    ] {
        linear(make, oracle, format, cols, outputs);
    }
}

/// Three weights of odd numbers of outputs that multiply the same activations, as queries, keys and values do.
pub fn linear_of_three_weights(make: Make<'_>, oracle: Make<'_>) {
    for (format, cols) in
        [(Format::Q8_0, 1056), (Format::Q4_0, 1056), (Format::F16, 1056), (Format::Q4_K, 2048)]
    {
        compare(
            [oracle, make],
            &[1, 2, 4, 33],
            limit(format),
            format_args!("{format}, seed {SEED}"),
            |net| {
                let x = net.input("x", 64, &normal(SEED, "x", 64 * cols));
                let outputs = [("a", 301), ("b", 75), ("c", 33)].map(|(name, outputs)| {
                    let bytes = crate::random_matrix(format, outputs * cols, 0.1, outputs as u64);
                    let w = net.weights(&format!("{name}.weight"), format, [1, outputs, cols], bytes);
                    net.graph.linear(name, x, w)
                });
                let ab = net.graph.join("ab", [outputs[0], outputs[1]], 1, 1);

                net.graph.join("abc", [ab, outputs[2]], 1, 1)
            },
        );
    }
}

/// A gated linear unit of odd numbers of outputs.
pub fn gated_linear_unit_of_odd_sizes(make: Make<'_>, oracle: Make<'_>) {
    for (format, cols, outputs) in [
        (Format::Q4_K, 2048, 75),
        (Format::Q6_K, 1024, 5),
        (Format::Q8_0, 1056, 33),
        (Format::Q8_0, 1024, 301),
        (Format::F16, 43, 3),
    ] {
        compare(
            [oracle, make],
            &[1, 2, 4, 7, 33],
            limit(format),
            format_args!("{format}, {cols} to {outputs}, seed {SEED}"),
            |net| {
                let x = net.input("x", 64, &normal(SEED, "x", 64 * cols));
                let [gate, up] = ["gate", "up"].map(|name| {
                    let seed = SEED + name.len() as u64;
                    let bytes =
                        crate::random_matrix(format, outputs * cols, 1.0 / (cols as f32).sqrt(), seed);
                    let w = net.weights(&format!("{name}.weight"), format, [1, outputs, cols], bytes);
                    net.graph.linear(name, x, w)
                });

                net.graph.gate("y", gate, up, Activation::Silu)
            },
        );
    }
}

/// Rows of quantised tables: of whole tiles of columns, and of others.
pub fn embed_looks_up_quantised_rows(make: Make<'_>, oracle: Make<'_>) {
    for (format, cols) in
        [(Format::Q8_0, 1024), (Format::Q4_K, 2048), (Format::Q6_K, 3072), (Format::Q4_K, 1280)]
    {
        compare(
            [oracle, make],
            &[1, 33],
            FLOAT,
            format_args!("{format}, {cols} columns, seed {SEED}"),
            |net| {
                let bytes = crate::random_matrix(format, 67 * cols, 1.0, SEED);
                let table = net.weights("table", format, [1, 67, cols], bytes);

                net.graph.embed("y", table)
            },
        );
    }
}

/// More outputs than a workgroup computes.
pub fn linear_with_many_outputs(make: Make<'_>, oracle: Make<'_>) {
    for (format, outputs) in [(Format::Q4_K, 130), (Format::Q6_K, 300), (Format::Q8_0, 257)] {
        linear(make, oracle, format, 256, outputs);
    }
    // More than the blocks of a small card have room for.
    linear(make, oracle, Format::Q8_0, 32, 9001);
    // Several times what the warps of a large card copy ahead.
    for (format, cols, outputs) in [(Format::Q4_K, 256, 20_500), (Format::Q5_1, 32, 15_100)] {
        let bytes = crate::random_matrix(format, outputs * cols, 0.1, 3);
        let x = normal(SEED, "x", 64 * cols);
        check_linear(make, oracle, format, &x, bytes, limit(format), &[1, 2]);
    }
}

/// More chunks of columns than threads in a subgroup.
pub fn linear_with_many_columns(make: Make<'_>, oracle: Make<'_>) {
    for (format, cols) in [
        (Format::F32, 2081),
        (Format::Q8_0, 2080),
        (Format::Q4_K, 2304),
        (Format::Q2_K, 2304),
        (Format::Q6_K, 2560),
        (Format::IQ4_XS, 2304),
        (Format::MXFP4, 2400),
        (Format::NVFP4, 2112),
        // Whole tiles of 1,024.
        (Format::Q4_K, 2048),
        (Format::Q6_K, 3072),
        (Format::Q8_0, 1024),
    ] {
        linear(make, oracle, format, cols, 11);
    }
}

/// Maximum F16 scales give weights beyond F16; a backend that converts weights to F16 needs another format for them.
pub fn linear_with_weights_beyond_f16(make: Make<'_>, oracle: Make<'_>) {
    for format in Format::ALL {
        let bytes = crate::random_matrix_beyond_f16(format, 70, 512, 0);
        check_linear(make, oracle, format, &normal(SEED, "x", 64 * 512), bytes, limit(format), &ROWS);
    }
}

/// Positive activations, in f32 or f16: errors of a format's minimums would add up.
pub fn linear_with_positive_activations(make: Make<'_>, oracle: Make<'_>) {
    let values: Vec<f32> = normal(SEED, "x", 64 * 1024).iter().map(|x| x.abs()).collect();
    for format in [Format::Q4_0, Format::Q8_0, Format::Q4_K, Format::Q5_K, Format::Q6_K] {
        let weights = crate::random_matrix(format, 70 * 1024, 0.02, 3);
        check_linear(make, oracle, format, &values, weights, FLOAT, &ROWS);
    }
}

pub(super) fn limit(format: Format) -> f64 {
    if format.block_len() == 1 { FLOAT } else { QUANTIZED }
}

fn linear(make: Make<'_>, oracle: Make<'_>, format: Format, cols: usize, outputs: usize) {
    let bytes = crate::random_matrix(format, outputs * cols, 0.1, 3);
    check_linear(make, oracle, format, &normal(SEED, "x", 64 * cols), bytes, limit(format), &ROWS);
}

/// Numbers of rows, for which backends have different kernels.
const ROWS: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 19, 33, 64];

/// Compares products with those of `oracle`. `x` has 64 rows; each of `counts` is a step with so many of them, from the first on.
fn check_linear(
    make: Make<'_>,
    oracle: Make<'_>,
    format: Format,
    x: &[f32],
    bytes: Vec<u8>,
    limit: f64,
    counts: &[usize],
) {
    let cols = x.len() / 64;
    let outputs = bytes.len() / (cols / format.block_len() * format.block_bytes());
    compare(
        [oracle, make],
        counts,
        limit,
        format_args!("{format}, seed {SEED}, {cols} columns, {outputs} outputs"),
        |net| {
            let x = net.input("x", 64, x);
            let w = net.weights("w", format, [1, outputs, cols], bytes.clone());

            net.graph.linear("y", x, w)
        },
    );
}

/// Three sequences in one step, with 1,100, 40 and 0 cached positions, on scattered blocks.
pub fn attention_over_several_sequences_and_scattered_blocks(make: Make<'_>, oracle: Make<'_>) {
    for format in [KvFormat::F16, KvFormat::F32] {
        attention(make, oracle, 32, 32, format);
    }
}

/// Keys of 48 columns, values of 20.
pub fn attention_with_different_key_and_value_sizes(make: Make<'_>, oracle: Make<'_>) {
    attention(make, oracle, 48, 20, KvFormat::F16);
}

/// A prompt, some rows after it, and single rows; many columns; many positions, some of which rows do not see. Keys and values are
/// those that each type of the cache represents exactly; FP8 rounds them, many at the middle between two. A backend may refuse a
/// type, or have another one instead.
pub fn attention_in_every_cache_type(make: Make<'_>, oracle: Make<'_>) {
    let part = |n_past, len| Sequence::uniform(n_past, len, 1, [3, 1, 4]);
    let of = |(n_past, len)| all_rows(vec![part(n_past, len)]);
    let (few, short) = ([(0, 5), (5, 1)].map(of), [(0, 66), (66, 5), (71, 1)].map(of));
    let blocks = || (0..12).map(|block| block * 5 % 12);
    let tiles =
        [(0, 300), (300, 1)].map(|(n_past, len)| all_rows(vec![Sequence::uniform(n_past, len, 1, blocks())]));
    let window = Mask::Window(600);
    let long = masked_steps(window);
    for kind in KvType::ALL {
        for (heads, k_dim, v_dim, mask, steps) in [
            (2, 64, 64, Mask::Causal, &short[..]),
            (2, 128, 128, Mask::Causal, &short),
            (2, 256, 256, Mask::Causal, &short),
            (2, 48, 20, Mask::Causal, &short),
            (2, 72, 128, Mask::Causal, &short),
            (2, 1100, 1500, Mask::Causal, &few),
            (2, 64, 64, window, &long),
            (2, 128, 128, Mask::Causal, &tiles),
            (HEADS, 64, 64, Mask::Causal, &tiles),
            (HEADS, 128, 128, Mask::Causal, &tiles),
            (HEADS, 256, 256, Mask::Causal, &tiles),
        ] {
            let store = Store { mask, ..store(heads, k_dim, v_dim) };
            attention_in(make, oracle, kind, (store, HEADS), |_| 0.1.into(), steps);
        }
    }
}

/// `heads` heads of `dim` columns: multiples of a power of two, in each block of 32 also the largest one. FP8 has only some of them.
fn exact_in(kind: KvType, name: &str, heads: usize, dim: usize) -> Vec<f32> {
    let (spread, most, largest, unit) = match kind {
        KvType::F32 | KvType::F16 | KvType::BF16 | KvType::FP8 | KvType::Q8_0 => {
            (40.0, 126.0, 127.0, 1.0 / 64.0)
        }
        KvType::Q4_0 => (3.0, 7.0, -8.0, 0.25),
    };
    let random = Random::new(SEED, name);
    let value = |i: usize| {
        let integer = (spread * random.normal(i as u64)).round().clamp(-most, most);
        unit * if (i % dim).is_multiple_of(32) { largest } else { integer }
    };
    (0..heads * dim).map(value).collect()
}

/// Enough rows for several tiles, of one sequence and of several.
pub fn attention_of_many_rows(make: Make<'_>, oracle: Make<'_>) {
    let block = |i: u32| i * 7 % BLOCKS as u32;
    let part =
        |n_past, len, blocks: std::ops::Range<u32>| Sequence::uniform(n_past, len, 1, blocks.map(block));
    let steps = [
        all_rows(vec![part(0, 201, 0..13)]),
        all_rows(vec![part(201, 190, 0..13), part(0, 64, 13..16), part(0, 65, 16..19)]),
        all_rows(vec![part(65, 1, 16..19), part(64, 30, 13..16), part(0, 66, 19..22)]),
    ];
    for (heads, k_dim, v_dim, format) in [
        (2, 64, 64, KvFormat::F16),
        (2, 128, 128, KvFormat::F16),
        (2, 128, 48, KvFormat::F16),
        (2, 80, 96, KvFormat::F16),
        (2, 36, 252, KvFormat::F16),
        (2, 128, 64, KvFormat::F32),
        // Other numbers of query heads that share keys and values.
        (HEADS, 64, 64, KvFormat::F16),
        (HEADS, 128, 128, KvFormat::F16),
        (HEADS / 2, 128, 128, KvFormat::F16),
        (1, 256, 256, KvFormat::F16),
    ] {
        check_attention(make, oracle, store(heads, k_dim, v_dim), format, &steps);
    }
}

/// Capped scores and sinks, with and without a window, in tiles, row by row and split over positions.
pub fn attention_with_capped_scores_and_sinks(make: Make<'_>, oracle: Make<'_>) {
    let steps = masked_steps(Mask::Window(130));
    for (dims, mask, format, cap, has_sinks) in [
        (64, Mask::Window(130), KvFormat::F16, None, true),
        (64, Mask::Causal, KvFormat::F16, Some(0.8), true),
        (48, Mask::Window(130), KvFormat::F32, Some(0.8), false),
        (10, Mask::Causal, KvFormat::F32, Some(0.8), true),
    ] {
        let store = Store { mask, ..store(2, dims, dims) };
        let score = |net: &mut Net| {
            let sinks = has_sinks.then(|| sinks(net, HEADS));
            Score { scale: 0.5, cap, sinks, alibi: None }
        };
        attention_by(make, oracle, store, format, score, &full_steps(mask, &steps));
    }
}

/// Sinks about as large as the largest scores, which have a magnitude of 10 where they are scaled by 0.5.
fn sinks(net: &mut Net, heads: usize) -> WeightId {
    let sinks: Vec<f32> = normal(SEED, "sinks", heads).iter().map(|x| 6.0 + 3.0 * x).collect();
    net.matrix("sinks", 1, &sinks)
}

/// The steps as they are for stores that drop blocks; otherwise two sequences that keep all blocks.
fn full_steps(mask: Mask, steps: &[Step]) -> Vec<Step> {
    if mask.span().is_some() {
        return steps.to_vec();
    }
    let block = |i: u32| i * 7 % BLOCKS as u32;
    let part =
        |n_past, len, blocks: std::ops::Range<u32>| Sequence::uniform(n_past, len, 1, blocks.map(block));
    vec![
        all_rows(vec![part(0, 300, 0..12), part(0, 65, 12..16)]),
        all_rows(vec![part(300, 3, 0..12), part(65, 1, 12..16)]),
        all_rows(vec![part(303, 1, 0..12), part(66, 1, 12..16)]),
        all_rows(vec![part(304, 60, 0..12)]),
    ]
}

/// Windows and chunks shorter and longer than blocks, blocks and chunks of positions. Freed blocks are reused by other sequences of
/// the same steps.
pub fn attention_with_masks(make: Make<'_>, oracle: Make<'_>) {
    for (mask, dims, format) in [
        (Mask::Window(1), 32, KvFormat::F32),
        (Mask::Window(24), 64, KvFormat::F16),
        (Mask::Window(130), 64, KvFormat::F16),
        (Mask::Window(600), 48, KvFormat::F16),
        (Mask::Window(2000), 32, KvFormat::F16),
        (Mask::Chunk(1), 32, KvFormat::F32),
        (Mask::Chunk(23), 64, KvFormat::F16),
        (Mask::Chunk(128), 64, KvFormat::F16),
        (Mask::Chunk(515), 10, KvFormat::F32),
    ] {
        let masked = Store { mask, ..store(2, dims, dims) };
        check_attention(make, oracle, masked, format, &masked_steps(mask));
    }
}

/// Single rows after more positions than the blocks of a split step take at once: of one sequence, two, and as many as are split.
/// They share the blocks of a prompt, end at positions that are no multiple of anything, and windows begin within a block.
pub fn attention_of_single_rows_after_many_positions(make: Make<'_>, oracle: Make<'_>) {
    const PROMPT: usize = 39 * KV_BLOCK;
    let block = |i: usize| (i * 7 % BLOCKS) as u32;
    let prompt =
        |n_past| all_rows(vec![Sequence::uniform(n_past, PROMPT / 13, 1, (0..PROMPT / KV_BLOCK).map(block))]);
    let rows = |sequences: std::ops::Range<usize>, done: usize| {
        let row = |i: usize| {
            let common = PROMPT / KV_BLOCK - 3 * i;
            Sequence::uniform(common * KV_BLOCK + done, 1, 1, (0..common).chain([40 + i]).map(block))
        };
        all_rows(sequences.map(row).collect())
    };
    let mut steps: Vec<Step> = (0..PROMPT).step_by(PROMPT / 13).map(prompt).collect();
    steps.extend([rows(0..8, 0), rows(0..8, 1), rows(0..2, 2), rows(0..1, 3)]);
    for (heads, dims, mask, format) in [
        (2, 64, Mask::Window(705), KvFormat::F16),
        (HEADS, 64, Mask::Causal, KvFormat::F16),
        (2, 128, Mask::Causal, KvFormat::F16),
        (HEADS, 128, Mask::Window(1003), KvFormat::F16),
        (1, 256, Mask::Window(1003), KvFormat::F16),
        (2, 48, Mask::Window(705), KvFormat::F32),
    ] {
        check_attention(make, oracle, Store { mask, ..store(heads, dims, dims) }, format, &steps);
    }
}

/// Single rows after more positions than 32 splits of 128 have, or so many that a backend may split them in another way: blocks of a
/// short prompt again and again, others in the end.
pub fn attention_of_single_rows_after_repeated_blocks(make: Make<'_>, oracle: Make<'_>) {
    const PROMPT: usize = 10;
    let row = |common: usize, own: usize, done: usize| {
        let block = |i: usize| if i < common - 20 { i % 5 } else { 5 + i % 5 };
        let blocks = (0..common).map(block).chain([PROMPT + own]);
        Sequence::uniform(common * KV_BLOCK + done, 1, 1, blocks.map(|block| block as u32))
    };
    let steps = [
        all_rows(vec![Sequence::uniform(0, PROMPT * KV_BLOCK, 1, 0..PROMPT as u32)]),
        all_rows(vec![row(140, 0, 0)]),
        all_rows(vec![row(140, 0, 1), row(40, 1, 0)]),
        all_rows(vec![row(300, 2, 0)]),
        all_rows(vec![row(300, 2, 1), row(40, 1, 1)]),
    ];
    // Up to 12 query heads of a K/V head.
    for (kv_heads, heads, dims, kind) in [
        (1, 12, 64, KvType::F16),
        (2, 6, 128, KvType::F16),
        (1, 2, 256, KvType::F16),
        (1, 12, 64, KvType::BF16),
        (2, 6, 128, KvType::FP8),
        (1, 6, 48, KvType::F32),
    ] {
        let score = |net: &mut Net| Score { sinks: Some(sinks(net, heads)), ..0.3.into() };
        attention_in(make, oracle, kind, (store(kv_heads, dims, dims), heads), score, &steps);
    }
}

/// Rows that see later ones: all rows of a sequence are in one step. Sequences of few and of many rows, over several
/// chunks of positions.
pub fn attention_without_causality(make: Make<'_>, oracle: Make<'_>) {
    let block = |i: u32| i * 7 % BLOCKS as u32;
    let part = |len, blocks: std::ops::Range<u32>| Sequence::uniform(0, len, 1, blocks.map(block));
    let steps = [
        all_rows(vec![part(1, 0..1), part(560, 1..19), part(65, 24..27), part(40, 28..30)]),
        all_rows(vec![part(1, 3..4), part(1, 0..1)]),
        all_rows(vec![part(5, 7..8), part(2, 0..1)]),
        all_rows(vec![part(600, 0..19)]),
    ];
    for (mask, dims, format) in [
        (Mask::Full, 64, KvFormat::F32),
        (Mask::Full, 10, KvFormat::F16),
        (Mask::Full, 48, KvFormat::F16),
        (Mask::Around(1), 32, KvFormat::F32),
        (Mask::Around(8), 64, KvFormat::F16),
        (Mask::Around(129), 32, KvFormat::F32),
        (Mask::Around(2000), 10, KvFormat::F16),
    ] {
        check_attention(make, oracle, Store { mask, ..store(2, dims, dims) }, format, &steps);
    }
}

/// Two sequences of 700 positions in chunks of odd sizes. Their block tables drop blocks that no later row sees, which are
/// reused at once.
fn masked_steps(mask: Mask) -> Vec<Step> {
    let mut free: Vec<u32> = (0..BLOCKS as u32).rev().collect();
    let mut tables = [BlockTable::default(), BlockTable::default()];
    let (mut n_past, mut steps) = ([0, 0], Vec::new());
    for lens in [[64, 3], [97, 130], [1, 1], [190, 64], [33, 1], [200, 190], [1, 1], [1, 190], [64, 70]] {
        let mut sequences = Vec::new();
        for ((table, n_past), len) in tables.iter_mut().zip(&mut n_past).zip(lens) {
            let first = mask.first_visible(*n_past) / KV_BLOCK;
            let gone = (first - table.first).min(table.blocks.len());
            free.extend(table.blocks.drain(..gone));
            table.first = first;
            while table.positions().end < *n_past + len {
                table.blocks.push(free.pop().expect("a free block"));
            }
            sequences.push(Sequence {
                n_past: *n_past,
                len,
                tables: vec![table.clone()].into(),
                ..Sequence::default()
            });
            *n_past += len;
        }
        steps.push(all_rows(sequences));
    }
    steps
}

/// A step with all rows as outputs; its tokens are 0, 1, …, from `TOKENS` on again.
fn all_rows(sequences: Vec<Sequence>) -> Step {
    let rows = sequences.iter().map(|sequence| sequence.len).sum::<usize>() as u32;
    let tokens = (0..rows).map(|row| row % TOKENS as u32);
    Step::new(Row::logits(tokens, 0..rows), sequences).expect("a good step")
}

fn attention(make: Make<'_>, oracle: Make<'_>, k_dim: usize, v_dim: usize, format: KvFormat) {
    // 7 is coprime to the number of blocks, so every block is used once.
    let mut free = (0..BLOCKS as u32).map(|i| i * 7 % BLOCKS as u32);
    let mut blocks =
        |positions: usize| -> Vec<u32> { free.by_ref().take(positions.div_ceil(KV_BLOCK)).collect() };
    let (long, middle, short) = (blocks(1110), blocks(60), blocks(20));
    let part = |n_past, len, blocks: &Vec<u32>| Sequence::uniform(n_past, len, 1, blocks.iter().copied());
    let tokens = |from: usize, n: usize| (from..from + n).map(|i| (i * 13 % TOKENS) as u32);
    let silent = |tokens, part| Step::new(Row::logits(tokens, []), vec![part]).expect("a good step");
    let mut steps: Vec<Step> =
        (0..1100).step_by(50).map(|n_past| silent(tokens(n_past, 50), part(n_past, 50, &long))).collect();
    steps.push(silent(tokens(7, 40), part(0, 40, &middle)));
    let parts = vec![part(1100, 10, &long), part(0, 20, &short), part(40, 1, &middle)];
    steps.push(Step::new(Row::logits(tokens(3, 31), 0..31), parts).expect("a good step"));
    check_attention(make, oracle, store(2, k_dim, v_dim), format, &steps);
}

/// Query heads.
const HEADS: usize = 6;

fn check_attention(make: Make<'_>, oracle: Make<'_>, store: Store, format: KvFormat, steps: &[Step]) {
    attention_by(make, oracle, store, format, |_| 0.5.into(), steps);
}

/// The same by so many query heads, with keys and values that are exact in a cache of type `kind`, if the backend has that.
fn attention_in(
    make: Make<'_>,
    oracle: Make<'_>,
    kind: KvType,
    (store, heads): (Store, usize),
    score: impl Fn(&mut Net) -> Score,
    steps: &[Step],
) {
    let (format, Store { heads: kv_heads, k_dim, v_dim, .. }) = (KvFormat { k: kind, v: kind }, store);
    let mut net = Net::with_kv(1, format);
    let inputs = [("q", heads * k_dim), ("k", kv_heads * k_dim), ("v", kv_heads * v_dim)];
    let inputs = inputs.map(|(name, cols)| net.input(name, 1, &vec![0.0; cols]));
    let y = net.attention("y", inputs, store, heads, 0.5);
    if net.load_in_its_type(y, make()).is_none() {
        return;
    }
    let inputs = [
        normal(SEED, "q", TOKENS * heads * k_dim),
        exact_in(kind, "k", TOKENS * kv_heads, k_dim),
        exact_in(kind, "v", TOKENS * kv_heads, v_dim),
    ];
    attention_on(make, oracle, (store, heads), format, score, inputs, steps);
}

fn attention_by(
    make: Make<'_>,
    oracle: Make<'_>,
    store: Store,
    format: KvFormat,
    score: impl Fn(&mut Net) -> Score,
    steps: &[Step],
) {
    let inputs =
        [("q", HEADS * store.k_dim), ("k", store.heads * store.k_dim), ("v", store.heads * store.v_dim)];
    let inputs = inputs.map(|(name, cols)| normal(SEED, name, TOKENS * cols));
    attention_on(make, oracle, (store, HEADS), format, score, inputs, steps);
}

fn attention_on(
    make: Make<'_>,
    oracle: Make<'_>,
    (store, heads): (Store, usize),
    format: KvFormat,
    score: impl Fn(&mut Net) -> Score,
    [q, k, v]: [Vec<f32>; 3],
    steps: &[Step],
) {
    let run = |make: Make<'_>, k: &[f32], v: &[f32]| {
        let tables = steps.iter().flat_map(Step::sequences).flat_map(|sequence| &*sequence.tables);
        let blocks = tables.map(|table| table.blocks.len()).max().unwrap_or(0);
        let mut net = Net::with_kv(blocks.max(BLOCKS), format);
        let inputs = [("q", &*q), ("k", k), ("v", v)].map(|(name, values)| net.input(name, TOKENS, values));
        let score = score(&mut net);
        let y = net.attention("y", inputs, store, heads, score);
        net.run(y, make(), steps)
    };
    let stored = |kind, x: &[f32]| match kind {
        KvType::FP8 => x.iter().map(|&x| E4M3::nearest(x).to_f32()).collect(),
        _ => x.to_vec(),
    };
    let exact = run(oracle, &stored(format.k, &k), &stored(format.v, &v));
    let error = nmse(&exact, &run(make, &k, &v));
    assert!(error <= FLOAT, "{store:?} in {format:?}, seed {SEED}: NMSE {error:e}");
}
