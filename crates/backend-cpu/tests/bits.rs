//! A sequence's logits have the same bits whatever shares the batch, however its prompt is chunked, wherever its blocks are and
//! however many threads run. Random schedules are compared with each sequence alone, for a Llama layer and for a graph with
//! windows, a shared store and experts, and for recurrent layers.

use std::collections::HashMap;

use backend::{
    Backend, BlockTable, Bucket, KV_BLOCK, KvFormat, KvLayout, KvType, Program, Sequence, Slots, Step, Taps,
    Weight, first_needed_block,
};
use backend_cpu::{Cpu, Isa};
use gguf::Gguf;
use graph::{
    Activation, Builder, Graph, Group, LinearHeads, Mask, NormKind, Op, Pairing, Rope, Store, ValueId,
    WeightId,
};
use models::Model;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use quant::Format;
use testkit::fixtures::Spec;
use testkit::goldens;

/// Number of sequences.
const SEQUENCES: usize = 64;

/// Blocks per group: slightly more than all sequences need.
const BLOCKS: usize = 160;

/// Total rows of a step.
const ROWS: usize = 3000;

/// The tokens of sequence `s`. The first exceeds 512 positions, where attention starts a second chunk; a few exceed two
/// blocks, all others one.
fn tokens(s: usize) -> Vec<u32> {
    let len = match s {
        0 => 600,
        1..8 => 66,
        _ => 34,
    };
    goldens::tokens().as_flattened()[s * 50..][..len].to_vec()
}

/// A schedule.
#[derive(Clone, Debug)]
struct Run {
    threads: usize,
    sequences: Vec<Plan>,
    /// Blocks of a group, in allocation order.
    blocks: Vec<u32>,
    outputs: Outputs,
}

/// The schedule of one sequence.
#[derive(Clone, Debug)]
struct Plan {
    /// Its first step.
    start: usize,
    /// Maximum positions.
    len: usize,
    /// Rows per step, repeated cyclically.
    chunks: Vec<usize>,
}

/// Which rows are output rows.
#[derive(Clone, Copy, Debug)]
enum Outputs {
    All,
    LastOfEach,
    EveryThird,
}

fn runs() -> impl Strategy<Value = Run> {
    let after_blocks =
        (1..=18usize, -1..=1isize).prop_map(|(n, off)| (n * KV_BLOCK).wrapping_add_signed(off));
    let len = prop_oneof![after_blocks, 505..=520usize, 1..=600usize];
    let rows = prop_oneof![4 => Just(1), 4 => 2..=8usize, 2 => 9..=64usize, 1 => 65..=600usize];
    // One larger chunk avoids six hundred steps.
    let sequence = (0..6usize, len, prop::collection::vec(rows, 0..=4), 12..=300usize);
    let sequence = sequence.prop_map(|(start, len, mut chunks, large)| {
        chunks.insert(start % (chunks.len() + 1), large);
        Plan { start, len, chunks }
    });
    let count = prop_oneof![1..=1usize, 2..=9usize, 10..=SEQUENCES];
    let sequences = count.prop_flat_map(move |count| prop::collection::vec(sequence.clone(), count));
    let blocks = Just((0..BLOCKS as u32).collect::<Vec<_>>()).prop_shuffle();
    let outputs = prop_oneof![Just(Outputs::All), Just(Outputs::LastOfEach), Just(Outputs::EveryThird)];
    (1..=4usize, sequences, blocks, outputs).prop_map(|(threads, sequences, blocks, outputs)| Run {
        threads,
        sequences,
        blocks,
        outputs,
    })
}

/// A graph and its weights.
type Net = (Graph, HashMap<String, Weight>);

/// A Llama layer.
fn llama(format: Format) -> Net {
    let mut spec = Spec { layers: 1, ffn: 768, ..Spec::new(format) };
    if format.block_len() == 1 {
        // Head dimension not a multiple of the vector; three query heads per K/V head.
        spec = Spec { heads: 6, head_length: Some(40), ..spec };
    }
    let file = Gguf::from_bytes(spec.file().into()).expect("a good file");
    let Model { graph, .. } = Model::new(&file).expect("a good model");
    let weight = |weight: &graph::Weight| {
        let tensor = file.tensor(&weight.tensor).expect("the model has checked its tensors");
        let of_tensor = Weight::matrix(tensor.format, weight.rows, weight.cols, tensor.data.clone());
        (weight.name.clone(), of_tensor)
    };
    let weights = graph.weights().map(|(_, w)| weight(w)).collect();
    (graph, weights)
}

/// Columns of the second graph: 8 heads of 32 over 2 K/V heads.
const COLS: usize = 256;

/// Three attention layers: one with a window, one without, one that reads the first one's K and V. Then experts in two
/// formats, 2 of 5 per row.
fn newer(format: Format) -> Net {
    let (mut g, mut weights) = (Builder::new(), HashMap::new());
    let mut weight = |g: &mut Builder, name: &str, [count, rows, cols]: [usize; 3], format: Format| {
        let deviation = 1.0 / (cols as f32).sqrt();
        let bytes = testkit::random_matrix(format, count * rows * cols, deviation, weights.len() as u64);
        weights.insert(name.to_owned(), Weight { format, count, rows, cols, bytes: bytes.into() });
        if count > 1 { g.weights(name, [count, rows, cols]) } else { g.weight(name, rows, cols) }
    };
    let table = weight(&mut g, "table", [1, testkit::VOCAB, COLS], Format::F32);
    let norm = weight(&mut g, "norm", [1, 1, 32], Format::F32);
    let mut x = g.embed("x", table);
    let window = g.store(Store { heads: 2, k_dim: 32, v_dim: 32, mask: Mask::Window(45) });
    let whole = g.store(Store { heads: 2, k_dim: 32, v_dim: 32, mask: Mask::Causal });
    for (layer, (store, is_written)) in
        [(window, true), (whole, true), (window, false)].into_iter().enumerate()
    {
        let mut project = |g: &mut Builder, name: &'static str, rows: usize| -> ValueId {
            let weight: WeightId = weight(g, &format!("{name}-{layer}"), [1, rows, COLS], format);
            g.linear((name, layer), x, weight)
        };
        let q = project(&mut g, "q", COLS);
        let kv = is_written.then(|| ["k", "v"].map(|name| project(&mut g, name, 64)));
        let q = g.rms_norm(("q_norm", layer), q, norm, 1e-6);
        let rope = Rope::new(32, Pairing::Halves, 1e4);
        let q = g.rope(("q_rope", layer), q, &rope);
        let a = g.attention(("a", layer), q, kv, store, 8, 0.3);
        x = g.add(("sum", layer), a, x);
    }
    let router = weight(&mut g, "router", [1, 5, COLS], Format::F32);
    let logits = g.linear("logits", x, router);
    let p = g.route("p", logits, 2);
    let other = if format.block_len() == 1 { Format::F16 } else { Format::Q5_0 };
    let names = [("gates", 512, COLS, format), ("ups", 512, COLS, other), ("downs", COLS, 512, format)];
    let experts = names.map(|(name, rows, cols, format)| weight(&mut g, name, [5, rows, cols], format));
    let e = g.experts("e", x, p, experts, Activation::GeluTanh);
    let e = g.scale("scaled", e, 0.7);
    let x = g.add("all", e, x);
    let x = g.output_rows("outputs", x);
    let head = weight(&mut g, "head", [1, 100, COLS], format);
    let y = g.linear("y", x, head);
    (g.finish(y), weights)
}

/// A gated delta rule and a scan, each after a convolution: 8 and 4 heads over 4 and 2 key heads of 20 and 33 columns.
fn recurrent(format: Format) -> Net {
    let (mut g, mut weights) = (Builder::new(), HashMap::new());
    let mut weight = |g: &mut Builder, name: String, rows: usize, cols: usize, format: Format| {
        let deviation = 1.0 / (cols as f32).sqrt();
        let bytes = testkit::random_matrix(format, rows * cols, deviation, weights.len() as u64);
        weights.insert(name.clone(), Weight::matrix(format, rows, cols, bytes.into()));
        g.weight(name, rows, cols)
    };
    let table = weight(&mut g, "table".into(), testkit::VOCAB, COLS, Format::F32);
    let mut x = g.embed("x", table);
    for (layer, (heads, k_heads, k_dim, is_delta)) in
        [(8, 4, 20, true), (4, 2, 33, false)].into_iter().enumerate()
    {
        let heads = LinearHeads { heads, k_heads, is_tiled: is_delta, scale: 0.2, is_delta };
        let mut convolved = |g: &mut Builder, [name, convolved]: [&'static str; 2], cols: usize| {
            let matrix = weight(g, format!("{name}-{layer}"), cols, COLS, format);
            let taps = weight(g, format!("{name}-{layer}-taps"), cols, 4, Format::F32);
            let x = g.linear((name, layer), x, matrix);
            g.conv((convolved, layer), x, taps, None)
        };
        let [q, k] =
            [["q", "q_conv"], ["k", "k_conv"]].map(|names| convolved(&mut g, names, k_heads * k_dim));
        let v = convolved(&mut g, ["v", "v_conv"], COLS);
        let k = g.norm(("k_norm", layer), k, NormKind::L2, k_dim, None, 1e-6);
        let of_heads =
            [(["decay", "softplus"], Activation::Softplus), (["beta", "sigmoid"], Activation::Sigmoid)];
        let [decay, beta] = of_heads.map(|([name, activated], act)| {
            let matrix = weight(&mut g, format!("{name}-{layer}"), heads.heads, COLS, format);
            let x = g.linear((name, layer), x, matrix);
            g.act((activated, layer), x, act)
        });
        let decay = g.scale(("log_decay", layer), decay, -0.1);
        let y = Op::LinearAttention { q, k, v, decay, beta, skip: None, heads };
        let y = g.op(("mixed", layer), y);
        let out = weight(&mut g, format!("out-{layer}"), COLS, COLS, format);
        let y = g.linear(("out", layer), y, out);
        x = g.add(("sum", layer), y, x);
    }
    let x = g.output_rows("outputs", x);
    let head = weight(&mut g, "head".into(), 100, COLS, format);
    let y = g.linear("y", x, head);
    (g.finish(y), weights)
}

/// A model on an instruction set, and the logit bits of each sequence alone: `[sequence][position]`.
struct Subject {
    isa: Isa,
    net: Net,
    kv: KvFormat,
    expected: Vec<Vec<Vec<u32>>>,
}

impl Subject {
    fn new(isa: Isa, kv: KvFormat, net: Net) -> Subject {
        let mut subject = Subject { isa, net, kv, expected: Vec::new() };
        let (mut alone, groups) = (subject.compile(1), subject.groups().len());
        let logits = |s| {
            let tokens = tokens(s);
            let sequence = Sequence::uniform(0, tokens.len(), groups, 0..BLOCKS as u32);
            let outputs = (0..tokens.len() as u32).collect();
            run(&mut *alone, tokens, vec![sequence], outputs)
        };
        subject.expected = (0..SEQUENCES).map(logits).collect();
        subject
    }

    fn groups(&self) -> &[Group] {
        self.net.0.groups()
    }

    fn compile(&self, threads: usize) -> Box<dyn Program> {
        let (graph, weights) = &self.net;
        let cpu = Cpu::with_isa(threads.try_into().ok(), self.isa).expect("an available set");
        let kv_layout = KvLayout::uniform(graph, BLOCKS, self.kv);
        let mut model = Box::new(cpu).load(graph, weights, &kv_layout).expect("a good model");
        model.compile(Bucket { rows: ROWS, outputs: ROWS }, Taps::None).expect("enough memory")
    }

    /// Runs all sequences; the error says where a bit differs.
    fn check(&self, plan: &Run) -> Result<(), TestCaseError> {
        let (mut program, groups) = (self.compile(plan.threads), self.groups());
        let mut free: Vec<Vec<u32>> = vec![plan.blocks.clone(); groups.len()];
        let mut left: Vec<Row> =
            plan.sequences.iter().enumerate().map(|(s, of)| Row::new(s, of, groups.len())).collect();
        for step in 0.. {
            if left.is_empty() {
                break;
            }
            let first = step % left.len();
            left.rotate_left(first);
            let (mut now, mut sequences, mut places) = (Vec::new(), Vec::new(), Vec::new());
            for row in left.iter_mut().filter(|row| row.plan.start <= step) {
                let turn = row.plan.chunks[(step - row.plan.start) % row.plan.chunks.len()];
                let (n_past, len) = (row.n_past, turn.min(row.tokens.len() - row.n_past));
                now.extend_from_slice(&row.tokens[n_past..n_past + len]);
                let positions = n_past..n_past + len;
                places.extend(positions.map(|position| (row.s, position, position + 1 == n_past + len)));
                sequences.push(row.take(len, groups, &mut free));
            }
            left.retain(|row| row.n_past < row.tokens.len());
            let is_output = |&row: &usize| match plan.outputs {
                Outputs::All => true,
                Outputs::LastOfEach => places[row].2,
                Outputs::EveryThird => row % 3 == 0,
            };
            let outputs: Vec<usize> = (0..places.len()).filter(is_output).collect();
            if now.is_empty() {
                continue;
            }
            let rows = outputs.iter().map(|&row| row as u32).collect();
            for (&row, found) in outputs.iter().zip(run(&mut *program, now, sequences, rows)) {
                let (s, position, _) = places[row];
                prop_assert!(
                    found == self.expected[s][position],
                    "step {step}, sequence {s}, position {position}, row {row} of {}",
                    places.len()
                );
            }
        }
        Ok(())
    }
}

/// A running sequence.
struct Row<'a> {
    s: usize,
    plan: &'a Plan,
    tokens: Vec<u32>,
    tables: Vec<BlockTable>,
    n_past: usize,
    /// Steps so far.
    turn: usize,
}

impl Row<'_> {
    fn new(s: usize, plan: &Plan, groups: usize) -> Row<'_> {
        let mut tokens = tokens(s);
        tokens.truncate(plan.len);
        Row { s, plan, tokens, tables: vec![BlockTable::default(); groups], n_past: 0, turn: 0 }
    }

    /// Its next `len` rows. Frees the blocks outside all windows; they are reused first.
    fn take(&mut self, len: usize, groups: &[Group], free: &mut [Vec<u32>]) -> Sequence {
        for ((table, group), free) in self.tables.iter_mut().zip(groups).zip(free) {
            let gone = first_needed_block(*group, self.n_past) - table.first;
            free.extend(table.blocks.drain(..gone));
            table.first += gone;
            while table.positions().end < self.n_past + len {
                table.blocks.push(free.pop().expect("blocks for all"));
            }
        }
        let slot = |turn: usize| (2 * self.s + turn % 2) as u32;
        let slots = Slots { read: slot(self.turn), write: slot(self.turn + 1), checkpoint: None };
        let sequence = Sequence {
            n_past: self.n_past,
            len,
            tables: self.tables.clone().into(),
            slots,
            ..Sequence::default()
        };
        self.turn += 1;
        self.n_past += len;
        sequence
    }
}

/// The logit bits of a step's output rows.
fn run(
    program: &mut dyn Program,
    tokens: Vec<u32>,
    sequences: Vec<Sequence>,
    outputs: Vec<u32>,
) -> Vec<Vec<u32>> {
    let rows = outputs.len();
    let step = Step::new(backend::Row::logits(tokens, outputs), sequences).expect("a good step");
    let logits = program.run(&step).expect("a good step").values();
    let row = |row: &[f32]| row.iter().map(|logit| logit.to_bits()).collect();
    logits.chunks_exact(logits.len() / rows).map(row).collect()
}

/// `cases` random schedules of the graph `net` in each of `formats`.
fn check(isa: Isa, formats: &[Format], net: fn(Format) -> Net, cases: u32) {
    let kv = |format| if format == Format::F32 { KvFormat::F32 } else { KvFormat::F16 };
    let formats: Vec<_> = formats.iter().map(|&format| (format, kv(format))).collect();
    check_all(isa, &formats, net, cases);
}

/// The same with types of K and V.
fn check_all(isa: Isa, formats: &[(Format, KvFormat)], net: fn(Format) -> Net, cases: u32) {
    if !isa.is_available() {
        let is_required = isa == Isa::Avx2 && std::env::var_os("RUSTORCH_REQUIRE_AVX2").is_some();
        assert!(!is_required, "this CPU has no {}", isa.name());
        eprintln!("skipped: this CPU has no {}", isa.name());
        return;
    }
    for &(format, kv) in formats {
        let subject = Subject::new(isa, kv, net(format));
        let config =
            Config { cases, max_shrink_time: 20_000, failure_persistence: None, ..Config::default() };
        let checked = TestRunner::new(config).run(&runs(), |plan| subject.check(&plan));
        checked.unwrap_or_else(|wrong| panic!("{} {format} {kv}: {wrong}", isa.name()));
    }
}

/// One format of each kind.
const KINDS: [Format; 7] = {
    use Format::{F16, F32, Q2_K, Q4_0, Q4_K, Q6_K, Q8_0};
    [Q4_0, Q8_0, Q4_K, Q6_K, Q2_K, F16, F32]
};

#[test]
fn avx512() {
    check(Isa::Avx512, &Format::ALL, llama, 4);
}

#[test]
fn avx512_with_recurrent_layers() {
    check(Isa::Avx512, &[Format::Q4_0, Format::Q4_K, Format::F32], recurrent, 4);
}

#[test]
fn avx512_with_windows_and_experts() {
    check(Isa::Avx512, &KINDS, newer, 4);
}

#[test]
fn avx2() {
    check(Isa::Avx2, &Format::ALL, llama, 4);
}

#[test]
fn avx2_with_recurrent_layers() {
    check(Isa::Avx2, &[Format::Q4_0, Format::Q4_K, Format::F32], recurrent, 4);
}

#[test]
fn avx2_with_windows_and_experts() {
    check(Isa::Avx2, &KINDS, newer, 4);
}

#[test]
fn every_type_of_keys_and_values() {
    use KvType::{BF16, F16, F32, FP8, Q4_0, Q8_0};
    let pairs = [
        [F32, F16],
        [F16, BF16],
        [BF16, F32],
        [FP8, FP8],
        [Q8_0, Q8_0],
        [Q4_0, Q4_0],
        [Q8_0, F16],
        [F16, Q4_0],
        [Q8_0, FP8],
    ];
    let formats = pairs.map(|[k, v]| (Format::F32, KvFormat { k, v }));
    for isa in [Isa::Avx512, Isa::Avx2] {
        check_all(isa, &formats, newer, 2);
    }
    check_all(Isa::Scalar, &formats[5..6], newer, 1);
}

/// Scalar code is slow.
#[test]
fn scalar() {
    check(Isa::Scalar, &KINDS, llama, 2);
}

#[test]
fn scalar_with_windows_and_experts() {
    check(Isa::Scalar, &[Format::Q4_0, Format::Q6_K, Format::F32], newer, 1);
}

#[test]
fn scalar_with_recurrent_layers() {
    check(Isa::Scalar, &[Format::Q8_0, Format::F32], recurrent, 1);
}
