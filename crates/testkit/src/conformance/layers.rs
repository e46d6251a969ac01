//! Whole layers of unaligned sizes against the reference backend: fusions, in steps of all sizes and with one or many
//! sequences.

use backend::{Bucket, KV_BLOCK, KvFormat, Output, Program, Row, Sequence, Step, Taps};
use graph::{Activation, Pairing, Rope, ValueId};
use quant::Format;

use super::Make;
use super::net::{Net, nmse, normal, rows, same, sequence, store};

/// NMSE limit of a layer with floating-point weights.
const FLOAT: f64 = 1e-6;

/// NMSE limit of a layer whose activations may be rounded to 8 bits: the limit of four operations.
const QUANTIZED: f64 = 2e-3;

const SEED: u64 = 5;

#[derive(Clone, Copy, Debug)]
struct Layer {
    format: Format,
    /// The format of the weights of values.
    value_format: Format,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head: usize,
    ffn: usize,
    vocab: usize,
    bias: bool,
    pairing: Pairing,
    kv: KvFormat,
}

/// Odd sizes: none is a multiple of a vector or block, except the head size.
const ODD: Layer = Layer {
    format: Format::F32,
    value_format: Format::F32,
    hidden: 37,
    heads: 3,
    kv_heads: 1,
    head: 10,
    ffn: 43,
    vocab: 67,
    bias: true,
    pairing: Pairing::Interleaved,
    kv: KvFormat::F32,
};

/// Blocks of 256 values, and 16 query heads that share a KV head.
const BLOCKS: Layer = Layer {
    format: Format::Q6_K,
    value_format: Format::Q6_K,
    hidden: 256,
    heads: 16,
    kv_heads: 1,
    head: 16,
    ffn: 256,
    bias: false,
    pairing: Pairing::Halves,
    kv: KvFormat::F16,
    ..ODD
};

/// More chunks of 32 columns than threads in a subgroup.
const WIDE: Layer = Layer {
    format: Format::Q8_0,
    value_format: Format::Q8_0,
    hidden: 2080,
    heads: 2,
    kv_heads: 2,
    head: 32,
    ffn: 96,
    bias: false,
    ..ODD
};

/// Heads of 16 columns, K/V in F32.
const EXACT: Layer = Layer { hidden: 64, heads: 4, kv_heads: 2, head: 16, bias: false, ..ODD };

impl Layer {
    fn limit(&self) -> f64 {
        match self.kv {
            _ if self.format.block_len() > 1 => QUANTIZED,
            KvFormat::F32 => FLOAT,
            _ => 10.0 * FLOAT,
        }
    }

    /// The layer between an embedding, whose row `nan_row` is NaN, and an output.
    fn net(&self, blocks: usize, nan_row: Option<usize>) -> (Net, ValueId) {
        let mut net = Net::with_kv(blocks, self.kv);
        let mut table: Vec<f32> = normal(SEED, "table", self.vocab * self.hidden);
        if let Some(row) = nan_row {
            table[row * self.hidden..][..self.hidden].fill(f32::NAN);
        }
        let scale = |cols: usize| 1.0 / (cols as f32).sqrt();
        let linear = |net: &mut Net, name: &'static str, (x, cols), outputs: usize, bias: bool| {
            let format = if name == "v" { self.value_format } else { self.format };
            let bytes = crate::random_matrix(format, outputs * cols, scale(cols), SEED + name.len() as u64);
            let weight = net.weights(&format!("{name}.weight"), format, [1, outputs, cols], bytes);
            if !bias {
                return net.graph.linear(name, x, weight);
            }
            let product = net.graph.linear((name, 0), x, weight);
            let bias = net.matrix(
                &format!("{name}.bias"),
                1,
                &normal(SEED, name, outputs).iter().map(|x| 0.25 * x).collect::<Vec<_>>(),
            );
            net.graph.add_bias(name, product, bias)
        };
        let norm = |net: &mut Net, name: &'static str, x| {
            let weight = net.matrix(&format!("{name}.weight"), 1, &normal(SEED, name, self.hidden));
            (net.graph.rms_norm(name, x, weight, 1e-5), self.hidden)
        };
        let rope = Rope::new(self.head, self.pairing, 10_000.0);
        let (q_cols, kv_cols) = (self.heads * self.head, self.kv_heads * self.head);
        let x = net.input("embd", self.vocab, &table);
        let normed = norm(&mut net, "attn_norm", x);
        let q = linear(&mut net, "q", normed, q_cols, self.bias);
        let k = linear(&mut net, "k", normed, kv_cols, self.bias);
        let v = linear(&mut net, "v", normed, kv_cols, self.bias);
        let q = net.graph.rope("q_rope", q, &rope);
        let k = net.graph.rope("k_rope", k, &rope);
        let kv = store(self.kv_heads, self.head, self.head);
        let attended = net.attention("kqv", [q, k, v], kv, self.heads, scale(self.head));
        let out = linear(&mut net, "attn_out", (attended, q_cols), self.hidden, false);
        let x = net.graph.add("ffn_inp", out, x);
        let normed = norm(&mut net, "ffn_norm", x);
        let gate = linear(&mut net, "gate", normed, self.ffn, false);
        let up = linear(&mut net, "up", normed, self.ffn, false);
        let inner = net.graph.gate("swiglu", gate, up, Activation::Silu);
        let down = linear(&mut net, "down", (inner, self.ffn), self.hidden, false);
        let x = net.graph.add("l_out", down, x);
        let outputs = net.graph.output_rows("outputs", x);
        let normed = norm(&mut net, "result_norm", outputs);
        let logits = linear(&mut net, "result_output", normed, self.vocab, false);
        (net, logits)
    }

    fn compile(
        &self,
        make: Make<'_>,
        blocks: usize,
        nan_row: Option<usize>,
        taps: Taps<'_>,
    ) -> Box<dyn Program> {
        let (net, logits) = self.net(blocks, nan_row);
        let (_, mut loaded) = net.load(logits, make()).expect("a good graph");
        loaded.compile(Bucket { rows: 64, outputs: 64 }, taps).expect("a good graph")
    }
}

/// Steps of one to nine rows, and of more, up to the bucket size.
pub fn odd_layer_in_steps_of_all_sizes(make: Make<'_>, oracle: Make<'_>) {
    in_steps(make, oracle, ODD, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 33, 64]);
}

/// Blocks of 256 values, one row and many.
pub fn layer_with_blocks_of_256(make: Make<'_>, oracle: Make<'_>) {
    in_steps(make, oracle, BLOCKS, &[1, 33]);
}

/// Values whose weights have another format than those of queries and keys, as in files of mixed formats.
pub fn layer_of_two_formats(make: Make<'_>, oracle: Make<'_>) {
    use Format::{F16, Q3_K, Q4_K, Q5_K, Q6_K};
    let pairs =
        [(Q3_K, Q4_K), (Q3_K, Q5_K), (Q4_K, Q5_K), (Q4_K, Q6_K), (Q5_K, Q6_K), (Q6_K, Q4_K), (Q4_K, F16)];
    for (format, value_format) in pairs {
        in_steps(make, oracle, Layer { format, value_format, bias: true, ..BLOCKS }, &[1, 2, 6, 33]);
    }
}

/// Blocks of 32 values, so many per row that whole workgroups share a row.
pub fn wide_layer(make: Make<'_>, oracle: Make<'_>) {
    in_steps(make, oracle, WIDE, &[1, 2, 33]);
    in_steps(make, oracle, Layer { hidden: 1024, ..WIDE }, &[1, 2, 33]);
}

fn in_steps(make: Make<'_>, oracle: Make<'_>, layer: Layer, sizes: &[usize]) {
    let mut programs = [oracle, make].map(|make| layer.compile(make, 2, None, Taps::None));
    for &n in sizes {
        same(&mut programs, &sequence(0, n), layer.limit(), format_args!("{layer:?}, seed {SEED}"));
    }
}

/// Tapping roped keys prevents their fusion into attention, but not that of queries.
pub fn tapped_keys_do_not_change_the_result(make: Make<'_>, oracle: Make<'_>) {
    tapped(make, oracle, BLOCKS, &["k_rope", "result_output"], &[1, 3, 33], Taps::Names(&["k_rope"]));
}

/// Every value can be read, including those that are otherwise fused.
pub fn every_value_of_a_layer_can_be_tapped(make: Make<'_>, oracle: Make<'_>) {
    let (net, logits) = ODD.net(2, None);
    let graph = net.graph.finish(logits);
    let names: Vec<&str> = graph.values().map(|(_, value)| &*value.name).collect();
    tapped(make, oracle, ODD, &names, &[3, 64], Taps::All);
}

/// Compares the values called `names` after steps of these `sizes`.
fn tapped(make: Make<'_>, oracle: Make<'_>, layer: Layer, names: &[&str], sizes: &[usize], taps: Taps<'_>) {
    let mut programs = [oracle, make].map(|make| layer.compile(make, 2, None, taps));
    for &n in sizes {
        for program in &mut programs {
            program.run(&sequence(0, n)).expect("a good step");
        }
        for name in names {
            let [exact, found] = programs.each_ref().map(|program| program.read(name).expect("it is tapped"));
            let error = nmse(exact, found);
            assert!(error <= layer.limit(), "{name}, seed {SEED}, {n} rows: NMSE {error:e}");
        }
    }
}

/// Eight sequences whose cache ends before, at and after block boundaries, in one step: compared with the reference, and
/// with each sequence alone.
pub fn eight_sequences_in_one_step(make: Make<'_>, oracle: Make<'_>) {
    let mut programs = [oracle, make].map(|make| ODD.compile(make, KV_BLOCKS, None, Taps::None));
    for lens in [[1; 8], [3, 1, 2, 5, 1, 4, 1, 2]] {
        let parts = scattered(&[0, 1, 30, 31, 32, 33, 63, 64], &lens);
        programs.iter_mut().for_each(|program| fill(program.as_mut(), &parts, ODD.vocab));
        let step = step_of(&parts, ODD.vocab);
        same(&mut programs, &step, FLOAT, format_args!("seed {SEED}, {lens:?}"));
        let found = &mut programs[1];
        let together = found.run(&step).expect("a good step").values().to_vec();
        let mut logits = together.chunks_exact(ODD.vocab);
        for part in &parts {
            let alone = found.run(&step_of(std::slice::from_ref(part), ODD.vocab)).expect("a good step");
            let together: Vec<f32> = logits.by_ref().take(part.len).flatten().copied().collect();
            let error = nmse(&together, alone.values());
            assert!(error <= FLOAT, "seed {SEED}, {part:?} alone: NMSE {error:e}");
        }
    }
}

/// A NaN row affects itself and later rows of its sequence, but no other sequence.
pub fn nan_rows_affect_no_other_sequence(make: Make<'_>) {
    for layer in [ODD, BLOCKS, EXACT] {
        let nan_row = layer.vocab - 1;
        let [mut good, mut bad] =
            [None, Some(nan_row)].map(|row| layer.compile(make, KV_BLOCKS, row, Taps::None));
        // First few rows of several sequences, then many.
        for (past, lens) in
            [(33, [1, 1, 1, 1]), (33, [1, 3, 2, 2]), (33, [4, 6, 5, 3]), (97, [12, 31, 16, 5])]
        {
            let parts = scattered(&[5, past, 0, 31], &lens);
            for program in [&mut good, &mut bad] {
                fill(program.as_mut(), &parts, nan_row);
            }
            let step = step_of(&parts, nan_row);
            let good = good.run(&step).expect("a good step");
            let (mut tokens, own) =
                (step.rows().iter().map(crate::token).collect::<Vec<_>>(), lens[0] + lens[1] / 2);
            let affected = own..lens[0] + lens[1];
            tokens[own] = nan_row as u32;
            let nan_rows = Row::all(tokens, &Output::Logits);
            let nan_step = Step::new(nan_rows, parts).expect("a good step");
            let bad = bad.run(&nan_step).expect("a good step");
            let pairs = good.values().chunks_exact(layer.vocab).zip(bad.values().chunks_exact(layer.vocab));
            for (row, (good, bad)) in pairs.enumerate() {
                if affected.contains(&row) {
                    assert!(bad.iter().all(|x| x.is_nan()), "{layer:?}, {lens:?}: row {row}, {bad:?}");
                } else {
                    let error = nmse(good, bad);
                    assert!(error <= layer.limit(), "{layer:?}, {lens:?}: row {row}, NMSE {error:e}");
                }
            }
        }
    }
}

/// A NaN weight affects one output column.
pub fn nan_weights_affect_one_output(make: Make<'_>) {
    const OUTPUTS: usize = 37;
    for (format, cols) in [(Format::F32, 45), (Format::F16, 96), (Format::Q8_0, 96), (Format::Q4_K, 256)] {
        for nan_output in [0, 16, OUTPUTS - 1] {
            let mut net = Net::default();
            let x = net.input("x", 64, &normal(SEED, "x", 64 * cols));
            let mut bytes = crate::random_matrix(format, OUTPUTS * cols, 0.1, SEED);
            let row = bytes.len() / OUTPUTS;
            // Replaces a value, or the scale of a block.
            let nan: &[u8] = if format == Format::F32 { &[0, 0, 0xc0, 0x7f] } else { &[0, 0x7e] };
            bytes[nan_output * row..][..nan.len()].copy_from_slice(nan);
            let w = net.weights("w", format, [1, OUTPUTS, cols], bytes);
            let y = net.graph.linear("y", x, w);
            let mut program = net.compile(y, make()).expect("a good graph");
            for n in [1, 3, 20] {
                let outputs = program.run(&rows(n)).expect("a good step");
                for (i, value) in outputs.values().iter().enumerate() {
                    assert_eq!(
                        value.is_nan(),
                        i % OUTPUTS == nan_output,
                        "{format}, {n} rows: output {} of row {} with NaN weights of output {nan_output}",
                        i % OUTPUTS,
                        i / OUTPUTS
                    );
                }
            }
        }
    }
}

const KV_BLOCKS: usize = 32;

/// Sequences on scattered blocks; sequence `i` has `pasts[i]` cached positions.
fn scattered(pasts: &[usize], lens: &[usize]) -> Vec<Sequence> {
    // 7 is coprime to the number of blocks, so every block is used once.
    let mut free = (0..KV_BLOCKS as u32).map(|i| i * 7 % KV_BLOCKS as u32);
    let part = |(&n_past, &len): (&usize, &usize)| {
        Sequence::uniform(n_past, len, 1, free.by_ref().take((n_past + len).div_ceil(KV_BLOCK)))
    };
    pasts.iter().zip(lens).map(part).collect()
}

/// The token at a position of a sequence.
fn token(part: &Sequence, position: usize, n_vocab: usize) -> u32 {
    ((position * 13 + part.tables[0].blocks[0] as usize * 5) % n_vocab) as u32
}

/// One step with all rows as outputs.
fn step_of(parts: &[Sequence], n_vocab: usize) -> Step {
    let tokens = parts.iter().flat_map(|part| part.positions().map(|at| token(part, at, n_vocab)));
    let tokens: Vec<u32> = tokens.collect();
    Step::new(Row::all(tokens, &Output::Logits), parts.to_vec()).expect("a good step")
}

/// Fills the cache up to the first row of each sequence.
fn fill(program: &mut dyn Program, parts: &[Sequence], n_vocab: usize) {
    for part in parts {
        for n_past in (0..part.n_past).step_by(40) {
            let before = Sequence { n_past, len: 40.min(part.n_past - n_past), ..part.clone() };
            program.run(&step_of(&[before], n_vocab)).expect("a good step");
        }
    }
}
