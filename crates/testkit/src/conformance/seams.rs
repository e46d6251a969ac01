//! Features that not every backend has, which then refuses a step by its name; and graphs with further results, which all have.

use backend::{
    Bucket, CacheBlock, Feature, Input, KvFormat, KvType, LoadedModel, Output, Program, Row, Sequence, Step,
    Taps,
};
use graph::{Mask, Store};

use super::Make;
use super::net::{Net, close, store};

/// Asserts that a backend without `feature` refuses it by its name. Returns whether it has it.
fn has<T: std::fmt::Debug>(
    loaded: &dyn LoadedModel,
    feature: Feature,
    result: &Result<T, backend::Error>,
) -> bool {
    if !loaded.supports(feature) {
        let error = result.as_ref().expect_err("it is not supported").to_string();
        assert!(error.contains(loaded.describe().name) && error.contains(&feature.to_string()), "{error}");
    }
    loaded.supports(feature)
}

/// A step of one sequence without stores.
fn one(rows: Vec<Row>) -> Step {
    let len = rows.len();
    Step::new(rows, vec![Sequence::uniform(0, len, 0, [])]).expect("a good step")
}

/// Rows of embeddings between rows of tokens have the bits of the tokens whose embeddings they are.
pub fn given_embeddings_are_those_of_tokens(make: Make<'_>) {
    let mut net = Net::default();
    let table: Vec<f32> = (0..8 * 6).map(|i| (i as f32 * 0.7).sin()).collect();
    let x = net.input("x", 8, &table);
    let w = net.matrix("w", 5, &(0..5 * 6).map(|i| (i as f32 * 0.3).cos()).collect::<Vec<f32>>());
    let x = net.graph.output_rows("outputs", x);
    let y = net.graph.linear("y", x, w);
    let (_, mut loaded) = net.load(y, make()).expect("a good graph");
    let mut program = loaded.compile(Bucket { rows: 8, outputs: 8 }, Taps::None).expect("a good graph");
    let tokens = [7, 3, 1, 3, 0];
    let expected =
        program.run(&one(Row::all(tokens, &Output::Logits))).expect("a good step").values().to_vec();
    let given = [7, 3].map(|token: usize| &table[6 * token..][..6]).concat();
    let inputs =
        [Input::Embedding(0), Input::Embedding(1), Input::Token(1), Input::Embedding(1), Input::Token(0)];
    let step = |inputs: &[Input]| {
        one(inputs.iter().map(|&input| Row { input, output: Output::Logits }).collect())
            .with_embeddings(given.clone())
    };
    let found = program.run(&step(&inputs)).map(|outputs| outputs.values().to_vec());
    if !has(&*loaded, Feature::Embeddings, &found) {
        return;
    }
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&found.expect("a good step")), bits(&expected));
    let missing = program.run(&step(&[Input::Embedding(2)])).expect_err("there are two").to_string();
    assert!(missing.contains("embedding 2 is missing"), "{missing}");
    let uneven = step(&inputs).with_embeddings(vec![0.0; 13]);
    assert!(program.run(&uneven).is_err(), "13 values are no rows of 6");
}

/// The hidden rows before the output matrix, and the logits of a second head.
pub fn further_results_are_read(make: Make<'_>) {
    let mut net = Net::default();
    let table: Vec<f32> = (0..6 * 4).map(|i| (i % 7) as f32 - 3.0).collect();
    let x = net.input("x", 6, &table);
    let hidden = net.graph.output_rows("hidden", x);
    let (first, second) =
        (net.matrix("w", 1, &[1.0, 2.0, 3.0, 4.0]), net.matrix("v", 1, &[0.0, -1.0, 1.0, 0.0]));
    let second = net.graph.linear("second", hidden, second);
    let logits = net.graph.linear("logits", hidden, first);
    net.graph.head(hidden);
    net.graph.head(second);
    let (_, mut loaded) = net.load(logits, make()).expect("a good graph");
    let mut program = loaded.compile(Bucket { rows: 8, outputs: 8 }, Taps::None).expect("a good graph");
    let row = |token: usize| &table[4 * token..][..4];
    let [y, v] = [[1.0, 2.0, 3.0, 4.0], [0.0, -1.0, 1.0, 0.0]]
        .map(|w| move |x: &[f32]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>());
    for outputs in
        [[Output::Logits, Output::Hidden], [Output::Hidden, Output::Hidden], [Output::Hidden, Output::Greedy]]
    {
        let mut rows = Row::all([5, 2, 4, 1], &Output::None);
        for (row, output) in [1, 3].into_iter().zip(&outputs) {
            rows[row].output = output.clone();
        }
        let found = program.run(&one(rows)).expect("a good step");
        assert_eq!((found.hidden(0), found.hidden(1), found.hidden(2)), (Some(row(2)), Some(row(1)), None));
        if outputs[0] == Output::Logits {
            close(found.logits(0).expect("it was asked for"), &[y(row(2))], 1e-6);
        }
        if outputs[1] == Output::Greedy {
            assert_eq!(found.token(1), Some(0), "of a vocabulary of one token");
        }
        assert_eq!(program.read("hidden").expect("a result"), [row(2), row(1)].concat());
        close(program.read("second").expect("a result"), &[v(row(2)), v(row(1))], 1e-6);
    }
}

/// With zero queries each row has the mean of the values of all positions that it sees: those of its mask and of its span.
pub fn rows_of_a_span_see_each_other(make: Make<'_>) {
    let spans = [10..14, 40..64];
    for (mask, window) in [(Mask::Causal, usize::MAX), (Mask::Window(3), 3)] {
        let mut net = Net::with_kv(3, KvFormat::F32);
        let zero = net.input("zero", 70, &[0.0; 70]);
        let v = net.input("v", 70, &(0..70).map(|i| (3 * i) as f32).collect::<Vec<f32>>());
        let y = net.attention("y", [zero, zero, v], Store { mask, ..store(1, 1, 1) }, 1, 1.0);
        let y = net.graph.output_rows("outputs", y);
        let (_, mut loaded) = net.load(y, make()).expect("a good graph");
        let mut program = loaded.compile(Bucket { rows: 70, outputs: 70 }, Taps::None).expect("a good graph");
        let sees = |p: usize, q: usize| {
            (q <= p && p - q < window) || spans.iter().any(|span| span.contains(&p) && span.contains(&q))
        };
        let mean = |p: usize| {
            let seen: Vec<f32> = (0..70).filter(|&q| sees(p, q)).map(|q| (3 * q) as f32).collect();
            seen.iter().sum::<f32>() / seen.len() as f32
        };
        let expected: Vec<f32> = (0..70).map(mean).collect();
        for ends in [vec![70], vec![33, 70], vec![10, 15, 40, 64, 65, 70]] {
            let (mut start, mut found) = (0, Vec::new());
            for end in ends {
                let rows = Row::all(start as u32..end as u32, &Output::Logits);
                let own: Vec<_> =
                    spans.iter().filter(|span| (start..end).contains(&span.start)).cloned().collect();
                let has_span = !own.is_empty();
                let sequence = Sequence::uniform(start, end - start, 1, 0..3).with_spans(own);
                let ran = program.run(&Step::new(rows, vec![sequence]).expect("a good step"));
                let ran = ran.map(|outputs| outputs.values().to_vec());
                if has_span && !has(&*loaded, Feature::Spans, &ran) {
                    return;
                }
                found.extend(ran.expect("a good step"));
                start = end;
            }
            close(&found, &expected, 1e-5);
        }
    }
    for wrong in [[3..3, 5..7], [4..6, 5..7], [4..5, 6..11], [0..2, 3..4]] {
        let sequence = Sequence::uniform(2, 8, 1, [0]).with_spans(wrong.clone());
        assert!(Step::new(Row::all(2..10, &Output::None), vec![sequence]).is_err(), "{wrong:?}");
    }
}

/// A sequence goes on bit for bit in the cache of another model, on other blocks, whatever the type of the cache.
pub fn blocks_move_between_caches(make: Make<'_>) {
    let q8 = KvFormat { k: KvType::Q8_0, v: KvType::Q8_0 };
    for format in [KvFormat::F16, KvFormat::F32, q8] {
        let load = || {
            let mut net = Net::with_kv(4, format);
            let values: Vec<f32> = (0..50 * 64).map(|i| ((i * 37 % 101) as f32 * 0.2).sin()).collect();
            let x = net.input("x", 50, &values);
            let y = net.attention("y", [x, x, x], store(2, 32, 32), 2, 0.5);
            net.load_in_its_type(y, make())
        };
        let (Some(mut from), Some(mut to)) = (load(), load()) else { continue };
        let bucket = Bucket { rows: 50, outputs: 50 };
        let [mut first, mut second] =
            [&mut from, &mut to].map(|loaded| loaded.compile(bucket, Taps::None).expect("a good graph"));
        let step = |n_past: usize, n: usize, blocks: [u32; 2]| {
            let rows = Row::all(n_past as u32..(n_past + n) as u32, &Output::Logits);
            Step::new(rows, vec![Sequence::uniform(n_past, n, 1, blocks)]).expect("a good step")
        };
        first.run(&step(0, 40, [3, 1])).expect("a good step");
        for (source, target) in [(3, 0), (1, 2)] {
            let block = from.read_block(CacheBlock::Kv { group: 0, block: source });
            if !has(&*from, Feature::CacheBlocks, &block) {
                return;
            }
            let (block, target) = (block.expect("a good block"), CacheBlock::Kv { group: 0, block: target });
            to.write_block(target, &block).expect("a good block");
            assert!(to.write_block(target, &block[1..]).is_err(), "a byte is missing");
        }
        for wrong in [
            CacheBlock::Kv { group: 0, block: 4 },
            CacheBlock::Kv { group: 1, block: 0 },
            CacheBlock::State { slot: 0 },
        ] {
            assert!(from.read_block(wrong).is_err() && to.write_block(wrong, &[]).is_err(), "{wrong:?}");
        }
        let bits = |program: &mut dyn Program, blocks| {
            let outputs = program.run(&step(40, 10, blocks)).expect("a good step");
            outputs.values().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(&mut *second, [0, 2]), bits(&mut *first, [3, 1]), "{format}");
    }
}
