//! Models of floating-point weights: alone, with layers on the CPU, and many sequences at a time.

use backend::{Backend, Bucket, KvFormat, KvLayout, Program, Span, Step, Taps, Weight};
use backend_cpu::Cpu;
use backend_reference::Reference;
use engine::Split;
use gguf::Gguf;
use models::Model;
use testkit::conformance::random::nmse;
use testkit::whole::{Whole, top1};
use testkit::{Case, goldens, judge};

use super::{adapter, gpu};

/// Error of logits that is allowed, as NMSE.
const LIMIT: f64 = 1e-5;

/// A top token this much above the next is everyone's top token.
const CLEAR: f32 = 0.05;

fn float_cases() -> impl Iterator<Item = Case> {
    testkit::cases().into_iter().filter(|case| case.is_float)
}

fn cpu() -> Box<dyn Backend> {
    Box::new(Cpu::new(1.try_into().ok()))
}

/// A sequence of every model.
#[test]
fn floats_are_within_the_limit() {
    let Some(adapter) = adapter() else { return };
    for case in float_cases() {
        let truth = judge::logits_of(&case, Box::new(Reference::new()), goldens::POSITIONS, 1);
        let found = judge::logits_of(&case, gpu(&adapter), goldens::POSITIONS, 1);
        let error = nmse(&truth, &found);
        assert!(error <= LIMIT, "{}: NMSE {error:e}", case.name);
    }
}

/// With none, the first, half and all of the layers on the GPU, in steps of one row, a few and many.
#[test]
fn parts_of_a_model_on_two_backends_are_the_whole() {
    let Some(adapter) = adapter() else { return };
    for case in float_cases().filter(|case| ["F32", "F32-qwen2"].contains(&case.name.as_str())) {
        let file = Gguf::from_bytes(case.file().into()).expect("a good file");
        let layers = Model::new(&file).expect("a good model").graph.layers();
        let tokens = &case.tokens()[0][..100];
        let logits = |backend: Box<dyn Backend>, rows| {
            Whole::new(case.file(), backend, KvFormat::F16, tokens.len(), rows).logits(tokens, rows)
        };
        let truth = logits(Box::new(Reference::new()), tokens.len());
        for (on_gpu, rows) in
            [(0, 100), (1, 1), (1, 7), (layers / 2, 100), (layers / 2, 7), (layers, 7), (layers, 1)]
        {
            let backend = match layers - on_gpu {
                0 => gpu(&adapter),
                on_cpu if on_cpu == layers => cpu(),
                on_cpu => Box::new(Split::new(cpu(), gpu(&adapter), on_cpu)),
            };
            let error = nmse(&truth, &logits(backend, rows));
            assert!(error <= LIMIT, "{}, {on_gpu} layers on the GPU, {rows} rows: NMSE {error:e}", case.name);
        }
    }
}

/// A model with room for `pages` pages, its program for steps of up to 64 rows and its tokens' number.
fn load(case: &Case, mut backend: Box<dyn Backend>, pages: usize) -> (Box<dyn Program>, usize) {
    let file = Gguf::from_bytes(case.file().into()).expect("a good file");
    let Model { config, graph } = Model::new(&file).expect("a good model");
    for (_, weight) in graph.weights() {
        let tensor = file.tensor(&weight.name).expect("the model has checked its tensors");
        let (format, rows, cols) = (tensor.format, weight.rows, weight.cols);
        let bytes = tensor.data.clone();
        backend.load(&weight.name, Weight { format, rows, cols, bytes }).expect("a good weight");
    }
    let layout = KvLayout::of(&graph, pages, KvFormat::F16).expect("it attends");
    backend.allocate_kv(layout).expect("room for a small store");
    let bucket = Bucket { rows: 64, wanted: 64 };
    (backend.compile(&graph, bucket, Taps::None).expect("a good graph"), config.vocab_size)
}

/// Pages of a sequence of up to 128 positions.
fn pages(sequence: usize) -> Vec<u32> {
    (0..4).map(|page| (8 * page + sequence) as u32).collect()
}

/// One step of `rows` positions of each of the sequences, all wanted.
fn step(sequences: &[(usize, &[u32])], past: usize, rows: usize) -> Step {
    let spans = sequences.iter().map(|&(i, _)| Span { past, len: rows, pages: pages(i) }).collect();
    let tokens: Vec<u32> =
        sequences.iter().flat_map(|(_, tokens)| tokens[past..past + rows].to_vec()).collect();
    let wanted = (0..tokens.len() as u32).collect();
    Step::new(tokens, spans, wanted).expect("a good step")
}

/// Eight sequences, in steps of up to eight rows of each, over the ends of pages: each as it is alone.
#[test]
fn eight_sequences_in_one_batch_are_what_each_is_alone() {
    let Some(adapter) = adapter() else { return };
    let steps = [(0, 8), (8, 8), (16, 8), (24, 7), (31, 1), (32, 1), (33, 6), (39, 8)];
    for case in float_cases().filter(|case| ["F32", "F32-qwen2"].contains(&case.name.as_str())) {
        let (mut batch, n_vocab) = load(&case, gpu(&adapter), 8 * 4);
        let (mut alone, _) = load(&case, gpu(&adapter), 8 * 4);
        let (mut exact, _) = load(&case, Box::new(Reference::new()), 8 * 4);
        let tokens = case.tokens();
        let sequences: Vec<(usize, &[u32])> = (0..8).map(|i| (i, &tokens[i][..])).collect();
        for (past, rows) in steps {
            let all = step(&sequences, past, rows);
            batch.run(&all).expect("a good step");
            exact.run(&all).expect("a good step");
            let error = nmse(exact.output(), batch.output());
            assert!(error <= LIMIT, "{}, position {past}: NMSE {error:e}", case.name);
            let together = batch.output().chunks_exact(rows * n_vocab);
            for (&sequence, together) in sequences.iter().zip(together) {
                alone.run(&step(&[sequence], past, rows)).expect("a good step");
                let error = nmse(alone.output(), together);
                assert!(
                    error <= LIMIT,
                    "{}, sequence {}, position {past}: NMSE {error:e}",
                    case.name,
                    sequence.0
                );
            }
        }
    }
}

/// Greedy text is the reference's, up to where its top two logits are as good as equal.
#[test]
fn greedy_text_is_the_references() {
    let Some(adapter) = adapter() else { return };
    let mut all = 0;
    for case in float_cases().filter(|case| case.name.starts_with("F32")) {
        let (mut exact, _) = load(&case, Box::new(Reference::new()), 4);
        let (mut found, _) = load(&case, gpu(&adapter), 4);
        let mut same = 0;
        for beginning in &case.tokens()[..4] {
            same += greedy(&mut *exact, &mut *found, &beginning[..5], &case.name);
        }
        assert!(same > 0, "{}: no step is clear", case.name);
        all += same;
    }
    assert!(all >= 200, "{all} tokens tell little");
}

/// Goes on from `text` with both programs; how many tokens were the same.
fn greedy(exact: &mut dyn Program, found: &mut dyn Program, text: &[u32], name: &str) -> usize {
    const TOKENS: usize = 60;
    let mut text = text.to_vec();
    let (mut past, mut same) = (0, 0);
    while text.len() < TOKENS {
        let span = Span { past, len: text.len() - past, pages: (0..4).collect() };
        let step = Step::new(text[past..].to_vec(), vec![span], vec![(text.len() - past - 1) as u32]);
        let step = step.expect("a good step");
        exact.run(&step).expect("a good step");
        found.run(&step).expect("a good step");
        let mut logits = exact.output().to_vec();
        logits.sort_by(|a, b| b.total_cmp(a));
        if logits[0] - logits[1] <= CLEAR {
            break;
        }
        let [exact, found] = [exact.output(), found.output()].map(top1);
        assert_eq!(exact, found, "{name}: token {} of the text", text.len());
        past = text.len();
        text.push(found);
        same += 1;
    }
    same
}
