//! Unquantised models: alone, split over two backends, and with many sequences per batch.

use backend::{Backend, Bucket, KvFormat, KvLayout, OutputRow, Sequence, Step};
use backend_reference::Reference;
use gguf::Gguf;
use graph::Graph;
use models::Model;
use runner::ModelRunner;
use testkit::conformance::random::nmse;
use testkit::whole::{Whole, top1};
use testkit::{Case, judge};

use super::{card, cuda};

/// Allowed error of logits, as NMSE.
const LIMIT: f64 = 1e-5;

/// A margin between the top two logits that no rounding error closes.
const CLEAR: f32 = 0.05;

/// Several pages, and more rows than an attention tile.
const POSITIONS: usize = 100;

fn float_cases() -> impl Iterator<Item = Case> {
    testkit::cases().into_iter().filter(|case| case.is_float)
}

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

/// One sequence per model.
#[test]
fn floats_are_within_the_limit() {
    let Some(card) = card() else { return };
    for case in float_cases() {
        let tokens = &case.tokens()[0][..POSITIONS];
        let logits = |backend| {
            let mut model = Whole::new(case.file(), backend, KvFormat::F16, tokens.len(), tokens.len());
            model.logits(tokens, tokens.len())
        };
        let error = nmse(&logits(reference()), &logits(cuda(&card)));
        assert!(error <= LIMIT, "{}: NMSE {error:e}", case.name);
    }
}

/// All golden positions of every model.
#[test]
fn floats_are_within_the_limit_at_every_golden_position() {
    let Some(card) = card() else { return };
    for case in float_cases() {
        let truth = judge::logits(&case, reference(), testkit::goldens::POSITIONS);
        let found = judge::logits(&case, cuda(&card), testkit::goldens::POSITIONS);
        assert!(judge::is_close(&case.name, &case, &truth, &found), "{}", case.name);
    }
}

fn model(case: &Case) -> (Gguf, Graph) {
    let file = Gguf::from_bytes(case.file().into()).expect("a good file");
    let Model { graph, .. } = Model::new(&file).expect("a good model");
    (file, graph)
}

/// Loads `graph` with a cache of `pages` pages and a bucket of `rows` rows.
fn load(file: &Gguf, graph: &Graph, backend: Box<dyn Backend>, pages: usize, rows: usize) -> ModelRunner {
    let kv_layout = KvLayout::uniform(graph, pages, KvFormat::F16);
    let buckets = [Bucket { rows, outputs: rows }];
    ModelRunner::new(file, graph, backend, &kv_layout, &buckets).expect("a good graph")
}

/// Cut after the first layer and in the middle, with the GPU first and last, in steps of one row, a few, and many.
#[test]
fn a_model_split_over_two_backends_equals_the_whole() {
    let Some(card) = card() else { return };
    for case in float_cases().filter(|case| ["F32", "F32-qwen2"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let tokens = &case.tokens()[0][..70];
        let truth = Whole::new(case.file(), reference(), KvFormat::F16, 70, 70).logits(tokens, 70);
        for (layers, gpu_is_first, rows) in
            [(1, true, 1), (1, false, 7), (graph.layers() / 2, true, 70), (graph.layers() / 2, false, 70)]
        {
            let (first, second) = graph.cut(layers).expect("a model of two layers or more");
            let [first_on, second_on] =
                if gpu_is_first { [cuda(&card), reference()] } else { [reference(), cuda(&card)] };
            let mut first = load(&file, &first, first_on, 3, rows);
            let mut second = load(&file, &second, second_on, 3, rows);
            let mut found = Vec::new();
            for (i, tokens) in tokens.chunks(rows).enumerate() {
                let sequence = Sequence::uniform(i * rows, tokens.len(), 1, 0..3);
                let outputs = (0..tokens.len() as u32).map(OutputRow::greedy).collect();
                let step = Step::new(tokens.to_vec(), vec![sequence.clone()], outputs);
                // Between stages all rows are passed on, whatever output is requested.
                let between = first.run(&step.expect("a good step")).expect("a good step").values().to_vec();
                let outputs = OutputRow::all(0..tokens.len() as u32);
                let step = Step::new(tokens.to_vec(), vec![sequence], outputs).expect("a good step");
                let step = step.with_input(between);
                found.extend_from_slice(second.run(&step).expect("a good step").values());
            }
            let error = nmse(&truth, &found);
            assert!(error <= LIMIT, "{}, cut at {layers}, {rows} rows: NMSE {error:e}", case.name);
        }
    }
}

/// Pages of a sequence of up to 64 positions.
fn pages(sequence: usize) -> Vec<u32> {
    (0..2).map(|page| (8 * page + sequence) as u32).collect()
}

/// A step of `rows` positions per sequence; all rows are output rows.
fn step(sequences: &[(usize, &[u32])], n_past: usize, rows: usize) -> Step {
    let slices = sequences.iter().map(|&(i, _)| Sequence::uniform(n_past, rows, 1, pages(i))).collect();
    let tokens: Vec<u32> =
        sequences.iter().flat_map(|(_, tokens)| tokens[n_past..n_past + rows].to_vec()).collect();
    let outputs = OutputRow::all(0..tokens.len() as u32);
    Step::new(tokens, slices, outputs).expect("a good step")
}

/// Eight sequences, up to eight rows each per step, across page boundaries: the same logits as one by one.
#[test]
fn batched_sequences_equal_single_ones() {
    let Some(card) = card() else { return };
    let steps = [(0, 8), (8, 8), (16, 8), (24, 7), (31, 1), (32, 1), (33, 6), (39, 8)];
    for case in float_cases().filter(|case| ["F32", "F32-qwen2"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let load = |backend| load(&file, &graph, backend, 8 * 2, 64);
        let (mut batch, mut alone, mut exact) = (load(cuda(&card)), load(cuda(&card)), load(reference()));
        let n_vocab = graph.value(graph.output()).cols;
        let tokens = case.tokens();
        let sequences: Vec<(usize, &[u32])> = (0..8).map(|i| (i, &tokens[i][..])).collect();
        for (n_past, rows) in steps {
            let all = step(&sequences, n_past, rows);
            let found = batch.run(&all).expect("a good step");
            let expected = exact.run(&all).expect("a good step");
            let error = nmse(expected.values(), found.values());
            assert!(error <= LIMIT, "{}, position {n_past}: NMSE {error:e}", case.name);
            let together = found.values().chunks_exact(rows * n_vocab);
            for (&sequence, together) in sequences.iter().zip(together) {
                let found = alone.run(&step(&[sequence], n_past, rows)).expect("a good step");
                let error = nmse(found.values(), together);
                let name = format!("{}, sequence {}", case.name, sequence.0);
                assert!(error <= LIMIT, "{name}, position {n_past}: NMSE {error:e}");
            }
        }
    }
}

/// Greedy text, chosen on the device, equals the reference's until its top two logits are nearly equal.
#[test]
fn greedy_text_equals_the_reference() {
    let Some(card) = card() else { return };
    let mut all = 0;
    for case in float_cases().filter(|case| ["F32", "F32-tied"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let mut exact = load(&file, &graph, reference(), 4, 64);
        let mut found = load(&file, &graph, cuda(&card), 4, 64);
        let mut same = 0;
        for beginning in &case.tokens()[..4] {
            same += greedy(&mut exact, &mut found, &beginning[..5], &case.name);
        }
        assert!(same > 0, "{}: no step is clear", case.name);
        all += same;
    }
    assert!(all >= 60, "{all} clear tokens are too few");
}

/// Extends `text` with both; returns the number of equal tokens.
fn greedy(exact: &mut ModelRunner, found: &mut ModelRunner, text: &[u32], name: &str) -> usize {
    const TOKENS: usize = 40;
    let mut text = text.to_vec();
    let (mut n_past, mut same) = (0, 0);
    while text.len() < TOKENS {
        let sequence = Sequence::uniform(n_past, text.len() - n_past, 1, 0..4);
        let last = (text.len() - n_past - 1) as u32;
        let step = |output| {
            Step::new(text[n_past..].to_vec(), vec![sequence.clone()], vec![output]).expect("a good step")
        };
        let expected = exact.run(&step(OutputRow::logits(last))).expect("a good step");
        let found = found.run(&step(OutputRow::greedy(last))).expect("a good step");
        let mut logits = expected.values().to_vec();
        logits.sort_by(|a, b| b.total_cmp(a));
        if logits[0] - logits[1] <= CLEAR {
            break;
        }
        let token = found.token(0).expect("it was asked for");
        assert_eq!(top1(expected.values()), token, "{name}: token {} of the text", text.len());
        assert!(found.values().is_empty(), "{name}: logits stay on the device");
        n_past = text.len();
        text.push(token);
        same += 1;
    }
    same
}
