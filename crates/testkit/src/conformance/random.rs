//! Random inputs: one operation against the reference backend.

use backend::{KvFormat, PAGE, Span, Step};
use quant::Format;

use super::Make;
pub use super::net::nmse;
use super::net::{Net, rows, store};
use crate::random::Random;

/// The largest error of one operation with 8-bit activations, as NMSE.
const QUANTIZED: f64 = 5e-4;

/// The largest error of one operation with f32 activations, as NMSE.
const FLOAT: f64 = 1e-6;

/// Chooses inputs.
const SEED: u64 = 11;

/// Tokens that attention is computed for, and pages of its store.
const TOKENS: usize = 500;
const PAGES: usize = 48;

fn normal(name: &str, values: usize) -> Vec<f32> {
    let random = Random::new(SEED, name);
    (0..values as u64).map(|i| random.normal(i)).collect()
}

/// Every format, for one row of activations and for several.
pub fn linear_in_every_format(make: Make<'_>, oracle: Make<'_>) {
    for format in Format::ALL {
        linear(make, oracle, format, 512, 70);
    }
}

/// Lengths that are no multiple of a vector, and single rows and outputs.
pub fn linear_with_odd_sizes(make: Make<'_>, oracle: Make<'_>) {
    for (format, cols, outputs) in [
        (Format::F32, 1, 1),
        (Format::F32, 37, 3),
        (Format::F16, 43, 33),
        (Format::BF16, 75, 2),
        (Format::Q8_0, 32, 1),
        (Format::Q4_0, 96, 65),
        (Format::Q6_K, 256, 1),
    ] {
        linear(make, oracle, format, cols, outputs);
    }
}

/// More chunks of columns than a subgroup has threads.
pub fn linear_with_many_columns(make: Make<'_>, oracle: Make<'_>) {
    for (format, cols) in [(Format::F32, 2081), (Format::Q8_0, 2080), (Format::Q4_K, 2304)] {
        linear(make, oracle, format, cols, 11);
    }
}

/// Scales as large as F16 allows make numbers that it has not: a backend that keeps weights as F16 needs another way.
pub fn linear_with_numbers_beyond_f16(make: Make<'_>, oracle: Make<'_>) {
    for format in Format::ALL {
        let (cols, outputs) = (512, 70);
        let bytes = crate::random_matrix_beyond_f16(format, outputs, cols, 0);
        linear_of(make, oracle, format, cols, outputs, bytes);
    }
}

/// Activations of one sign, in f32 or f16: what a format's minimums lose would add up.
pub fn linear_with_positive_activations(make: Make<'_>, oracle: Make<'_>) {
    const COLS: usize = 1024;
    for format in [Format::Q4_0, Format::Q8_0, Format::Q4_K, Format::Q5_K, Format::Q6_K] {
        let numbers: Vec<f32> = normal("x", 64 * COLS).iter().map(|x| x.abs()).collect();
        let [exact, found] = [oracle, make].map(|make| {
            let mut net = Net::default();
            let x = net.input("x", 64, &numbers);
            let weights = crate::random_matrix(format, 70 * COLS, 0.02, 3);
            let w = net.weight("w", format, 70, COLS, weights);
            let y = net.graph.linear("y", x, w);
            net.run(y, make(), None, &[rows(64)])
        });
        let error = nmse(&exact, &found);
        assert!(error <= FLOAT, "{format}, seed {SEED}: NMSE {error:e}");
    }
}

fn linear(make: Make<'_>, oracle: Make<'_>, format: Format, cols: usize, outputs: usize) {
    let bytes = crate::random_matrix(format, outputs * cols, 0.1, 3);
    linear_of(make, oracle, format, cols, outputs, bytes);
}

fn linear_of(make: Make<'_>, oracle: Make<'_>, format: Format, cols: usize, outputs: usize, bytes: Vec<u8>) {
    let limit = if format.block_len() == 1 { FLOAT } else { QUANTIZED };
    let [mut exact, mut found] = [oracle, make].map(|make| {
        let mut net = Net::default();
        let x = net.input("x", 64, &normal("x", 64 * cols));
        let w = net.weight("w", format, outputs, cols, bytes.clone());
        let y = net.graph.linear("y", x, w);
        net.compile(y, make(), None).expect("a good graph")
    });
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 19, 33, 64] {
        exact.run(&rows(n)).expect("a good step");
        found.run(&rows(n)).expect("a good step");
        let error = nmse(exact.output(), found.output());
        assert!(
            error <= limit,
            "{format}, seed {SEED}, {n} rows of {cols}, {outputs} outputs: NMSE {error:e}"
        );
    }
}

/// Three sequences in one step, with 1,100, 40 and 0 positions behind them, on pages that lie anywhere.
pub fn attention_over_several_chunks_sequences_and_scattered_pages(make: Make<'_>, oracle: Make<'_>) {
    for format in [KvFormat::F16, KvFormat::F32] {
        attention(make, oracle, 32, 32, format);
    }
}

/// Keys of 48 values, values of 20.
pub fn attention_with_values_of_another_width(make: Make<'_>, oracle: Make<'_>) {
    attention(make, oracle, 48, 20, KvFormat::F16);
}

/// Rows enough for several tiles, of one sequence and of several.
pub fn attention_of_many_rows(make: Make<'_>, oracle: Make<'_>) {
    let page = |i: u32| i * 7 % PAGES as u32;
    let span = |past, len, pages: std::ops::Range<u32>| Span { past, len, pages: pages.map(page).collect() };
    let step = |spans: Vec<Span>| {
        let rows = spans.iter().map(|span| span.len).sum::<usize>() as u32;
        Step::new((0..rows).collect(), spans, (0..rows).collect()).expect("a good step")
    };
    let steps = [
        step(vec![span(0, 201, 0..13)]),
        step(vec![span(201, 190, 0..13), span(0, 64, 13..16), span(0, 65, 16..19)]),
        step(vec![span(65, 1, 16..19), span(64, 30, 13..16), span(0, 66, 19..22)]),
    ];
    for (k_dim, v_dim, format) in [
        (64, 64, KvFormat::F16),
        (128, 128, KvFormat::F16),
        (128, 48, KvFormat::F16),
        (80, 96, KvFormat::F16),
        (36, 252, KvFormat::F16),
        (128, 64, KvFormat::F32),
    ] {
        attention_of(make, oracle, [k_dim, v_dim], format, &steps);
    }
}

fn attention(make: Make<'_>, oracle: Make<'_>, k_dim: usize, v_dim: usize, format: KvFormat) {
    // 7 has no factor in common with the number of pages, so every page is taken once.
    let mut free = (0..PAGES as u32).map(|i| i * 7 % PAGES as u32);
    let mut pages = |positions: usize| -> Vec<u32> { free.by_ref().take(positions.div_ceil(PAGE)).collect() };
    let (long, middle, short) = (pages(1110), pages(60), pages(20));
    let span = |past, len, pages: &Vec<u32>| Span { past, len, pages: pages.clone() };
    let tokens = |from: usize, n: usize| (from..from + n).map(|i| (i * 13 % TOKENS) as u32);
    let mut steps: Vec<Step> = (0..1100)
        .step_by(50)
        .map(|past| {
            Step::new(tokens(past, 50).collect(), vec![span(past, 50, &long)], vec![]).expect("a good step")
        })
        .collect();
    steps.push(Step::new(tokens(7, 40).collect(), vec![span(0, 40, &middle)], vec![]).expect("a good step"));
    let spans = vec![span(1100, 10, &long), span(0, 20, &short), span(40, 1, &middle)];
    steps.push(Step::new(tokens(3, 31).collect(), spans, (0..31).collect()).expect("a good step"));
    attention_of(make, oracle, [k_dim, v_dim], format, &steps);
}

fn attention_of(
    make: Make<'_>,
    oracle: Make<'_>,
    [k_dim, v_dim]: [usize; 2],
    format: KvFormat,
    steps: &[Step],
) {
    let (heads, kv_heads) = (6, 2);
    let run = |make: Make<'_>| {
        let mut net = Net::default();
        let mut input = |name, cols| net.input(name, TOKENS, &normal(name, TOKENS * cols));
        let inputs = [input("q", heads * k_dim), input("k", kv_heads * k_dim), input("v", kv_heads * v_dim)];
        let y = net.graph.attention("y", inputs, heads, kv_heads, 0.5);
        net.run(y, make(), Some(store(kv_heads, k_dim, v_dim, PAGES, format)), steps)
    };
    let error = nmse(&run(oracle), &run(make));
    assert!(error <= FLOAT, "{k_dim} and {v_dim} columns in {format:?}, seed {SEED}: NMSE {error:e}");
}
