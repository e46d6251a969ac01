//! A sequence's logits are the same bits whoever shares its batch, however its prompt is split into steps,
//! wherever its pages lie and however many threads run: random runs beside each sequence alone.

use backend::{Backend, Bucket, KvFormat, KvLayout, PAGE, Program, Span, Step, Taps, Weight};
use backend_cpu::{Cpu, Isa};
use gguf::Gguf;
use models::Model;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use quant::Format;
use testkit::goldens;
use testkit::llama::Spec;

/// Sequences there are.
const SEQUENCES: usize = 64;

/// Pages of the store: some more than all sequences need.
const PAGES: usize = 160;

/// Rows of all sequences together.
const ROWS: usize = 3000;

/// The tokens of sequence `s`: the first goes past 512 positions, where attention begins a second chunk, a
/// few past two pages, all others past one.
fn tokens(s: usize) -> Vec<u32> {
    let len = match s {
        0 => 600,
        1..8 => 66,
        _ => 34,
    };
    goldens::tokens().as_flattened()[s * 50..][..len].to_vec()
}

/// How some sequences are run.
#[derive(Clone, Debug)]
struct Run {
    threads: usize,
    sequences: Vec<Sequence>,
    /// The store's pages, in the order in which sequences get them.
    pages: Vec<u32>,
    wanted: Wanted,
}

/// How one of them is.
#[derive(Clone, Debug)]
struct Sequence {
    /// The step it joins in.
    start: usize,
    /// Positions, at most.
    len: usize,
    /// Rows of its steps, over and over.
    chunks: Vec<usize>,
}

/// The rows whose logits are wanted.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    All,
    LastOfEach,
    EveryThird,
}

fn runs() -> impl Strategy<Value = Run> {
    let of_pages = (1..=18usize, -1..=1isize).prop_map(|(n, off)| (n * PAGE).wrapping_add_signed(off));
    let len = prop_oneof![of_pages, 505..=520usize, 1..=600usize];
    let rows = prop_oneof![4 => Just(1), 4 => 2..=8usize, 2 => 9..=64usize, 1 => 65..=600usize];
    // One chunk that is not small, lest six hundred steps be run.
    let sequence = (0..6usize, len, prop::collection::vec(rows, 0..=4), 12..=300usize);
    let sequence = sequence.prop_map(|(start, len, mut chunks, large)| {
        chunks.insert(start % (chunks.len() + 1), large);
        Sequence { start, len, chunks }
    });
    let count = prop_oneof![1..=1usize, 2..=9usize, 10..=SEQUENCES];
    let sequences = count.prop_flat_map(move |count| prop::collection::vec(sequence.clone(), count));
    let pages = Just((0..PAGES as u32).collect::<Vec<_>>()).prop_shuffle();
    let wanted = prop_oneof![Just(Wanted::All), Just(Wanted::LastOfEach), Just(Wanted::EveryThird)];
    (1..=4usize, sequences, pages, wanted).prop_map(|(threads, sequences, pages, wanted)| Run {
        threads,
        sequences,
        pages,
        wanted,
    })
}

/// A model on a kernel set, and the bits of the logits of each sequence alone: `[sequence][position]`.
struct Subject {
    isa: Isa,
    file: Gguf,
    expected: Vec<Vec<Vec<u32>>>,
}

impl Subject {
    fn new(isa: Isa, format: Format) -> Subject {
        let mut spec = Spec { layers: 1, ffn: 768, ..Spec::new(format) };
        if format.block_len() == 1 {
            // Heads that are no whole vectors, three to one of keys and values.
            spec = Spec { heads: 6, head_length: Some(40), ..spec };
        }
        let file = Gguf::from_bytes(spec.file().into()).expect("a good file");
        let mut subject = Subject { isa, file, expected: Vec::new() };
        let mut alone = subject.compile(1);
        let logits = |s| {
            let tokens = tokens(s);
            let (len, pages) = (tokens.len(), (0..PAGES as u32).collect());
            let wanted = (0..len as u32).collect();
            run(&mut *alone, tokens, vec![Span { past: 0, len, pages }], wanted)
        };
        subject.expected = (0..SEQUENCES).map(logits).collect();
        subject
    }

    fn compile(&self, threads: usize) -> Box<dyn Program> {
        let Model { config, graph } = Model::new(&self.file).expect("a good model");
        let mut cpu = Cpu::with_isa(threads.try_into().ok(), self.isa).expect("an available set");
        for (_, weight) in graph.weights() {
            let tensor = self.file.tensor(&weight.name).expect("the model has checked its tensors");
            let (rows, cols, bytes) = (weight.rows, weight.cols, tensor.data.clone());
            let of_tensor = Weight { format: tensor.format, rows, cols, bytes };
            cpu.load(&weight.name, of_tensor).expect("a good weight");
        }
        let is_f32 = self.file.tensors().all(|tensor| tensor.format == Format::F32);
        let layout = KvLayout {
            layers: graph.layers(),
            kv_heads: config.head_count_kv,
            k_dim: config.key_length,
            v_dim: config.value_length,
            pages: PAGES,
            format: if is_f32 { KvFormat::F32 } else { KvFormat::F16 },
        };
        cpu.allocate_kv(layout).expect("room for a small store");
        cpu.compile(&graph, Bucket { rows: ROWS, wanted: ROWS }, Taps::None).expect("a good graph")
    }

    /// Runs all sequences to their ends; the error says where a bit differs.
    fn check(&self, plan: &Run) -> Result<(), TestCaseError> {
        let mut program = self.compile(plan.threads);
        let mut free = plan.pages.iter().copied();
        let mut left: Vec<Row> =
            plan.sequences.iter().enumerate().map(|(s, of)| Row::new(s, of, &mut free)).collect();
        for step in 0.. {
            if left.is_empty() {
                break;
            }
            let first = step % left.len();
            left.rotate_left(first);
            let (mut now, mut spans, mut places) = (Vec::new(), Vec::new(), Vec::new());
            for row in left.iter_mut().filter(|row| row.plan.start <= step) {
                let turn = row.plan.chunks[(step - row.plan.start) % row.plan.chunks.len()];
                let (past, len) = (row.past, turn.min(row.tokens.len() - row.past));
                now.extend_from_slice(&row.tokens[past..past + len]);
                places
                    .extend((past..past + len).map(|position| (row.s, position, position + 1 == past + len)));
                spans.push(Span { past, len, pages: row.pages.clone() });
                row.past += len;
            }
            left.retain(|row| row.past < row.tokens.len());
            let is_wanted = |&row: &usize| match plan.wanted {
                Wanted::All => true,
                Wanted::LastOfEach => places[row].2,
                Wanted::EveryThird => row % 3 == 0,
            };
            let wanted: Vec<usize> = (0..places.len()).filter(is_wanted).collect();
            if now.is_empty() {
                continue;
            }
            let rows = wanted.iter().map(|&row| row as u32).collect();
            for (&row, found) in wanted.iter().zip(run(&mut *program, now, spans, rows)) {
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

/// A sequence that is being run.
struct Row<'a> {
    s: usize,
    plan: &'a Sequence,
    tokens: Vec<u32>,
    pages: Vec<u32>,
    past: usize,
}

impl Row<'_> {
    fn new<'a>(s: usize, plan: &'a Sequence, free: &mut impl Iterator<Item = u32>) -> Row<'a> {
        let mut tokens = tokens(s);
        tokens.truncate(plan.len);
        let pages: Vec<u32> = free.take(tokens.len().div_ceil(PAGE)).collect();
        Row { s, plan, tokens, pages, past: 0 }
    }
}

/// The bits of the logits of the rows wanted of a step.
fn run(program: &mut dyn Program, tokens: Vec<u32>, spans: Vec<Span>, wanted: Vec<u32>) -> Vec<Vec<u32>> {
    let rows = wanted.len();
    program.run(&Step::new(tokens, spans, wanted).expect("a good step")).expect("a good step");
    let logits = program.output();
    let row = |row: &[f32]| row.iter().map(|logit| logit.to_bits()).collect();
    logits.chunks_exact(logits.len() / rows).map(row).collect()
}

/// `cases` random runs in each of `formats`.
fn check(isa: Isa, formats: &[Format], cases: u32) {
    if !isa.is_available() {
        let is_required = isa == Isa::Avx2 && std::env::var_os("RUSTORCH_REQUIRE_AVX2").is_some();
        assert!(!is_required, "this processor has no {}", isa.name());
        eprintln!("skipped: this processor has no {}", isa.name());
        return;
    }
    for &format in formats {
        let subject = Subject::new(isa, format);
        let config =
            Config { cases, max_shrink_time: 20_000, failure_persistence: None, ..Config::default() };
        let checked = TestRunner::new(config).run(&runs(), |plan| subject.check(&plan));
        checked.unwrap_or_else(|wrong| panic!("{} {format}: {wrong}", isa.name()));
    }
}

#[test]
fn avx512() {
    check(Isa::Avx512, &Format::ALL, 4);
}

#[test]
fn avx2() {
    check(Isa::Avx2, &Format::ALL, 4);
}

/// Plain Rust is slow: a format of each kind.
#[test]
fn scalar() {
    use Format::{F16, F32, Q2_K, Q4_0, Q4_K, Q6_K, Q8_0};
    check(Isa::Scalar, &[Q4_0, Q8_0, Q4_K, Q6_K, Q2_K, F16, F32], 2);
}
