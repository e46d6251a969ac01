//! Tests of whole models that backends of accelerators share: unquantised ones alone, split over two backends, and with many
//! sequences per batch, and quantised ones, which must be as close to the exact logits as llama.cpp is.
//!
//! `make` opens the backend under test, `reference` the reference backend.

use crate::conformance::Make;
use crate::conformance::random::nmse;
use crate::whole::{Whole, family_errors, top1};
use crate::{Case, judge};
use backend::{
    Backend, Bucket, Draw, Filter, KvFormat, KvLayout, MAX_CANDIDATES, Output, Penalties, Row, Sequence, Step,
};
use gguf::Gguf;
use graph::Graph;
use models::Model;
use runner::ModelRunner;

/// Mounts the tests of whole models: `whole_models!(with_device, [#[ignore = "…"]])`. `with_device` runs a test with the device, if
/// there is one, and the reference; the attribute is that of tests which take long.
#[macro_export]
macro_rules! whole_models {
    ($run:ident, $slow:tt) => {
        $crate::whole_models!(@mount $run, [],
            floats_are_within_the_limit
            a_model_split_over_two_backends_equals_the_whole
            batched_sequences_equal_single_ones
            greedy_text_equals_the_reference
            one_format_of_each_kind
        );
        $crate::whole_models!(@mount $run, $slow,
            floats_are_within_the_limit_at_every_golden_position
            formats_of_equal_steps
            formats_of_tables
            biases_and_the_demo_model
        );
    };
    (@mount $run:ident, $attributes:tt, $($name:ident)+) => {
        $($crate::whole_models!(@test $run, $attributes, $name);)+
    };
    (@test $run:ident, [$($attributes:tt)*], $name:ident) => {
        #[test]
        $($attributes)*
        fn $name() {
            $run($crate::accelerators::$name);
        }
    };
}

/// Allowed error of logits, as NMSE.
const LIMIT: f64 = 1e-5;

/// A margin between the top two logits that no rounding error closes.
const CLEAR: f32 = 0.05;

/// Several blocks, and more rows than an attention tile.
const POSITIONS: usize = 100;

fn float_cases() -> impl Iterator<Item = Case> {
    crate::cases().into_iter().filter(|case| case.is_float)
}

/// One sequence per model.
pub fn floats_are_within_the_limit(make: Make<'_>, reference: Make<'_>) {
    for case in float_cases() {
        let tokens = &case.tokens()[0][..POSITIONS];
        let logits = |backend| {
            let mut model = Whole::new(case.file(), backend, KvFormat::F16, tokens.len(), tokens.len());
            model.logits(tokens, tokens.len())
        };
        let error = nmse(&logits(reference()), &logits(make()));
        assert!(error <= LIMIT, "{}: NMSE {error:e}", case.name);
    }
}

/// All golden positions of every model.
pub fn floats_are_within_the_limit_at_every_golden_position(make: Make<'_>, reference: Make<'_>) {
    judge::assert_close(|case| case.is_float, reference, &[("", make)]);
}

fn model(case: &Case) -> (Gguf, Graph) {
    let file = Gguf::from_bytes(case.file().into()).expect("a good file");
    let Model { graph, .. } = Model::new(&file).expect("a good model");
    (file, graph)
}

/// Loads `graph` with a cache of `blocks` blocks and a bucket of `rows` rows.
fn load(file: &Gguf, graph: &Graph, backend: Box<dyn Backend>, blocks: usize, rows: usize) -> ModelRunner {
    let kv_layout = KvLayout::uniform(graph, blocks, KvFormat::F16);
    let buckets = [Bucket { rows, outputs: rows }];
    ModelRunner::new(file, graph, backend, &kv_layout, &buckets).expect("a good graph")
}

/// Cut after the first layer and in the middle, with the GPU first and last, in steps of one row, a few, and many.
pub fn a_model_split_over_two_backends_equals_the_whole(make: Make<'_>, reference: Make<'_>) {
    for case in float_cases().filter(|case| ["F32", "F32-qwen2"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let tokens = &case.tokens()[0][..70];
        let truth = Whole::new(case.file(), reference(), KvFormat::F16, 70, 70).logits(tokens, 70);
        for (layers, gpu_is_first, rows) in
            [(1, true, 1), (1, false, 7), (graph.layers() / 2, true, 70), (graph.layers() / 2, false, 70)]
        {
            let (first, second) = graph.cut(layers).expect("a model of two layers or more");
            let [first_on, second_on] =
                if gpu_is_first { [make(), reference()] } else { [reference(), make()] };
            let mut first = load(&file, &first, first_on, 3, rows);
            let mut second = load(&file, &second, second_on, 3, rows);
            let mut found = Vec::new();
            for (i, tokens) in tokens.chunks(rows).enumerate() {
                let sequence = Sequence::uniform(i * rows, tokens.len(), 1, 0..3);
                let rows = Row::all(tokens.iter().copied(), &Output::Greedy);
                let step = Step::new(rows, vec![sequence.clone()]);
                // Between stages all rows are passed on, whatever output is requested.
                let between = first.run(&step.expect("a good step")).expect("a good step").values().to_vec();
                let rows = Row::all(tokens.iter().copied(), &Output::Logits);
                let step = Step::new(rows, vec![sequence]).expect("a good step").with_hidden(between);
                found.extend_from_slice(second.run(&step).expect("a good step").values());
            }
            let error = nmse(&truth, &found);
            assert!(error <= LIMIT, "{}, cut at {layers}, {rows} rows: NMSE {error:e}", case.name);
        }
    }
}

/// Blocks of a sequence of up to 64 positions.
fn blocks(sequence: usize) -> Vec<u32> {
    (0..2).map(|block| (8 * block + sequence) as u32).collect()
}

/// A step of `rows` positions per sequence; all rows are output rows.
fn step(sequences: &[(usize, &[u32])], n_past: usize, rows: usize) -> Step {
    let slices = sequences.iter().map(|&(i, _)| Sequence::uniform(n_past, rows, 1, blocks(i))).collect();
    let tokens: Vec<u32> =
        sequences.iter().flat_map(|(_, tokens)| tokens[n_past..n_past + rows].to_vec()).collect();
    Step::new(Row::all(tokens, &Output::Logits), slices).expect("a good step")
}

/// Eight sequences, up to eight rows each per step, across block boundaries: the same logits as one by one.
pub fn batched_sequences_equal_single_ones(make: Make<'_>, reference: Make<'_>) {
    let steps = [(0, 8), (8, 8), (16, 8), (24, 7), (31, 1), (32, 1), (33, 6), (39, 8)];
    for case in float_cases().filter(|case| ["F32", "F32-qwen2"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let load = |backend| load(&file, &graph, backend, 8 * 2, 64);
        let (mut batch, mut alone, mut exact) = (load(make()), load(make()), load(reference()));
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
pub fn greedy_text_equals_the_reference(make: Make<'_>, reference: Make<'_>) {
    let mut all = 0;
    for case in float_cases().filter(|case| ["F32", "F32-tied"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let mut exact = load(&file, &graph, reference(), 4, 64);
        let mut found = load(&file, &graph, make(), 4, 64);
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
        let step = |output| {
            let mut rows = Row::all(text[n_past..].iter().copied(), &Output::None);
            rows.last_mut().expect("it has rows").output = output;
            Step::new(rows, vec![sequence.clone()]).expect("a good step")
        };
        let expected = exact.run(&step(Output::Logits)).expect("a good step");
        let found = found.run(&step(Output::Greedy)).expect("a good step");
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

/// The candidates of a step are those of its logits, which stay on the device; a row may request the token alone.
pub fn candidates_are_those_of_the_logits(make: Make<'_>, _: Make<'_>) {
    for case in float_cases().filter(|case| ["F32", "F32-tied"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let mut runner = load(&file, &graph, make(), 8 * 2, 64);
        let n_vocab = graph.value(graph.output()).cols;
        let tokens = case.tokens();
        for sequences in [1, 8] {
            let sequences: Vec<(usize, &[u32])> = (0..sequences).map(|i| (i, &tokens[i][..])).collect();
            for (n_past, rows) in [(0, 8), (8, 1), (9, 1), (10, 1)] {
                let all = step(&sequences, n_past, rows);
                let mut rows = all.rows().to_vec();
                rows.iter_mut().for_each(|row| row.output = Output::Candidates);
                rows.iter_mut().skip(1).take(1).for_each(|row| row.output = Output::Greedy);
                let less = Step::new(rows, all.sequences().to_vec());
                let logits = runner.run(&all).expect("a good step").values().to_vec();
                let found = runner.run(&less.expect("a good step")).expect("a good step");
                assert!(found.values().is_empty(), "{}: logits stay on the device", case.name);
                for (i, logits) in logits.chunks_exact(n_vocab).enumerate() {
                    let expected = crate::best(logits, MAX_CANDIDATES);
                    let what = format!("{}, row {i} at position {n_past}", case.name);
                    match i {
                        1 => assert_eq!(found.token(i), Some(expected[0].0), "{what}"),
                        _ => assert_eq!(found.candidates(i), Some(&expected[..]), "{what}"),
                    }
                }
            }
        }
    }
}

/// Draws of a model's logits, which stay on the device, from few tokens and from all, with and without biases and penalties in turn, and
/// a greedy row: the tokens that their definition gives for these logits.
pub fn drawn_tokens_are_those_of_the_logits(make: Make<'_>, _: Make<'_>) {
    let draw = |row: u32, n_past: usize, is_adjusted: bool| {
        let u = f64::from(row * 37 % 64) / 64.0 + 0.005 + n_past as f64 / 5e3;
        let counts = vec![(3, 1), (9 + row, 2), (200, 1)];
        let penalties = Penalties { repeat: 1.2, frequency: 0.1, presence: 0.2, counts };
        let penalties = Some(penalties).filter(|_| is_adjusted && row.is_multiple_of(2));
        let biases: &[(u32, f32)] = &[(5, 0.5), (9, f32::NEG_INFINITY)];
        let biases = if is_adjusted { biases } else { &[] }.into();
        let filters = [Filter::TopP(0.95), Filter::MinP(0.01), Filter::Temperature(0.8)].into();
        Draw { u, biases, penalties, top_k: [40, 0, 70][(row as usize + n_past) % 3], filters }
    };
    for case in float_cases().filter(|case| ["F32", "F32-tied"].contains(&case.name.as_str())) {
        let (file, graph) = model(&case);
        let mut runner = load(&file, &graph, make(), 8 * 2, 64);
        let n_vocab = graph.value(graph.output()).cols;
        let tokens = case.tokens();
        for sequences in [1, 8] {
            let sequences: Vec<(usize, &[u32])> = (0..sequences).map(|i| (i, &tokens[i][..])).collect();
            for (n_past, rows) in [(0, 8), (8, 1), (9, 1), (10, 1), (11, 1), (12, 1), (13, 1), (14, 1)] {
                let all = step(&sequences, n_past, rows);
                let logits = runner.run(&all).expect("a good step").values().to_vec();
                for again in 0..2 {
                    let draws: Vec<Option<Draw>> = (0..all.outputs().len() as u32)
                        .map(|row| (row != 1).then(|| draw(row, n_past, n_past % 4 > again)))
                        .collect();
                    let rows = all.rows().iter().zip(&draws).map(|(row, draw)| Row {
                        input: row.input,
                        output: draw.clone().map_or(Output::Greedy, |draw| Output::Draw(draw.into())),
                    });
                    let less = Step::new(rows.collect(), all.sequences().to_vec()).expect("a good step");
                    let found = runner.run(&less).expect("a good step");
                    for (i, logits) in logits.chunks_exact(n_vocab).enumerate() {
                        let token = found.token(i);
                        let is_right = match &draws[i] {
                            Some(draw) => crate::is_drawn(token, logits, draw, crate::token(&all.rows()[i])),
                            None => token == crate::best(logits, 1).first().map(|(id, _)| *id),
                        };
                        let what = format!("{}, row {i} at position {n_past}", case.name);
                        assert!(found.logits(i).is_none() && found.candidates(i).is_none(), "{what}");
                        assert!(is_right, "{what}: {token:?}");
                    }
                }
            }
        }
    }
}

/// Formats of every test run: one with 256-value blocks, one that Vulkan and Metal convert, one with biases.
const ALWAYS: [&str; 3] = ["Q4_K", "Q4_1", "Q8_0-qwen2"];

/// 4,096 positions of every quantised model that `is_among` selects.
fn as_close_as_llama_cpp(make: Make<'_>, reference: Make<'_>, is_among: impl Fn(&str) -> bool) {
    judge::assert_close(|case| !case.is_float && is_among(&case.name), reference, &[("", make)]);
}

/// Whether the values of a quantised format are in equal steps; those of the others are in a table or a grid.
fn has_equal_steps(name: &str) -> bool {
    name.starts_with('Q') || name.starts_with("TQ")
}

/// Whether it is a quantised model of one format, without biases, that [`one_format_of_each_kind`] leaves out.
fn is_other(name: &str) -> bool {
    !name.contains('-') && !ALWAYS.contains(&name)
}

/// Quantised models in a format of each kind.
pub fn one_format_of_each_kind(make: Make<'_>, reference: Make<'_>) {
    as_close_as_llama_cpp(make, reference, |name| ALWAYS.contains(&name));
}

/// The other formats of equal steps.
pub fn formats_of_equal_steps(make: Make<'_>, reference: Make<'_>) {
    as_close_as_llama_cpp(make, reference, |name| is_other(name) && has_equal_steps(name));
}

/// Formats of a table or a grid.
pub fn formats_of_tables(make: Make<'_>, reference: Make<'_>) {
    as_close_as_llama_cpp(make, reference, |name| is_other(name) && !has_equal_steps(name));
}

/// Models with biases, and the demo model.
pub fn biases_and_the_demo_model(make: Make<'_>, reference: Make<'_>) {
    as_close_as_llama_cpp(make, reference, |name| name.contains('-') && !ALWAYS.contains(&name));
}

/// F32 models of every family beside exact logits: 300 tokens in one step, and in steps of 37, which end inside blocks and
/// windows.
pub fn families_are_exact_over_300_tokens(make: Make<'_>, limit: f64) {
    for rows in [300, 37] {
        for (name, error) in family_errors(make, KvFormat::F32, rows) {
            println!("{name}, {rows} rows: NMSE {error:.2e}");
            assert!(error <= limit, "{name}, {rows} rows: NMSE {error:e}");
        }
    }
}
