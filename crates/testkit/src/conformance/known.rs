//! Hand-computed answers.

use backend::{Bucket, Input, KvFormat, KvType, MAX_CANDIDATES, Output, Row, Sequence, Step, Taps};
use graph::{Activation, LongFactors, Mask, Pairing, Rope, Score, Store, Yarn};
use quant::E4M3;

use super::Make;
use super::net::{Net, close, rows, sequence, store};

/// One row of the table for each token, in the order of the step.
pub fn embed_looks_up_rows(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("table", 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    close(&net.run(x, make(), &[rows(3)]), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.0);
}

/// `y[r] = sum_k W[r * K + k] * x[k]`: W has two rows of three, not three rows of two.
pub fn linear_sums_over_contiguous_rows(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 2, &[1.0, 10.0, 100.0, 1.0, 0.0, -1.0]);
    let w = net.matrix("w", 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = net.graph.linear("y", x, w);
    close(&net.run(y, make(), &[rows(2)]), &[321.0, 654.0, -2.0, -2.0], 0.0);
}

/// mean(3^2, 4^2) = 12.5; with eps 3.5 the root is 4. Values of 1000 are not clipped, and the weight is not rescaled.
pub fn rms_norm_uses_eps_and_does_not_clip(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 2, &[3.0, 4.0, 1000.0, -1000.0]);
    let w = net.matrix("w", 1, &[2000.0, 4.0]);
    let y = net.graph.rms_norm("y", x, w, 3.5);
    close(&net.run(y, make(), &[rows(2)]), &[1500.0, 4.0, 2000.0, -4.0], 1e-5);
}

/// Cosines and sines of the angles 1, 0.749894, 0.562341 (d = 64, theta = 10000) at position 1.
pub fn rope_interleaved(make: Make<'_>) {
    let y = roped(make, Pairing::Interleaved, 1.0, None);
    // Row of token 1 at position 1; each of its pairs was (1, 0).
    close(&y[64..70], &[0.540302, 0.841471, 0.731761, 0.681561, 0.846009, 0.533168], 2e-6);
    close(&y[..4], &[1.0, 0.0, 1.0, 0.0], 0.0);
}

/// The same angles, with pairs of columns `i` and `i + d/2`.
pub fn rope_halves(make: Make<'_>) {
    let y = roped(make, Pairing::Halves, 1.0, None);
    // The row was 1 0 1 0 …, that is pairs (1, 1), (0, 0), (1, 1) of columns i and i + 32.
    close(&y[64..67], &[0.540302 - 0.841471, 0.0, 0.846009 - 0.533168], 2e-6);
    close(&y[96..99], &[0.841471 + 0.540302, 0.0, 0.533168 + 0.846009], 2e-6);
}

/// Scale 1/2 and factor 0.5 of the first pair cancel out; the second pair rotates by half the angle.
pub fn rope_with_scale_and_factors(make: Make<'_>) {
    let mut factors = [1.0; 32];
    factors[0] = 0.5;
    let y = roped(make, Pairing::Interleaved, 0.5, Some(&factors));
    let half = 0.749_894_2_f32 / 2.0;
    close(&y[64..68], &[0.540302, 0.841471, half.cos(), half.sin()], 2e-6);
}

/// YaRN from pair 1 to pair 3 with scale 1/4: pairs 0 and 1 keep their frequencies, pair 2 has half of each, pair 3 and
/// later ones a quarter; all are twice as long.
pub fn rope_with_yarn_and_magnitude(make: Make<'_>) {
    let yarn = |ext_factor| Some(Yarn { low: 1.0, high: 3.0, ext_factor });
    let rope = Rope {
        scale: 0.25,
        magnitude: 2.0,
        yarn: yarn(1.0),
        ..Rope::new(64, Pairing::Interleaved, 10_000.0)
    };
    let y = rope_rows(make, |_| rope);
    // 10^-i/8 is the frequency of pair i.
    let angles = [1.0, 0.749_894_2, 0.562_341_3 * 0.625, 0.421_696_5 * 0.25, 0.316_227_8 * 0.25_f32];
    let expected: Vec<f32> = angles.iter().flat_map(|angle| [2.0 * angle.cos(), 2.0 * angle.sin()]).collect();
    close(&y[..4], &[2.0, 0.0, 2.0, 0.0], 0.0);
    close(&y[64..74], &expected, 2e-6);
    // With half of it, pair 0 has the mean of both frequencies.
    let y = rope_rows(make, |_| Rope { yarn: yarn(0.5), ..rope });
    close(&y[64..66], &[2.0 * 0.625_f32.cos(), 2.0 * 0.625_f32.sin()], 2e-6);
}

/// A context of 64 positions is longer than 63, and not longer than 64.
pub fn rope_with_long_factors(make: Make<'_>) {
    for (original_context, factor) in [(64, 0.5_f32), (63, 2.0)] {
        let y = rope_rows(make, |net| Rope {
            factors: Some(net.matrix("short", 1, &[0.5; 32])),
            long_factors: Some(LongFactors { original_context, factors: net.matrix("long", 1, &[2.0; 32]) }),
            ..Rope::new(64, Pairing::Interleaved, 10_000.0)
        });
        close(&y[64..66], &[(1.0 / factor).cos(), (1.0 / factor).sin()], 2e-6);
    }
}

/// Two columns of heads of four rotate, by 90 degrees at position 1 with scale pi / 2.
pub fn rope_copies_the_other_columns(make: Make<'_>) {
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        let mut net = Net::default();
        let row = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let x = net.input("x", 2, &[row, row].concat());
        let rope = Rope { dims: 2, scale: std::f32::consts::FRAC_PI_2, ..Rope::new(4, pairing, 10_000.0) };
        let y = net.graph.rope("y", x, &rope);
        let found = net.run(y, make(), &[rows(2)]);
        close(&found[..8], &row, 0.0);
        close(&found[8..], &[-2.0, 1.0, 3.0, 4.0, -6.0, 5.0, 7.0, 8.0], 1e-6);
    }
}

/// Two rows of one head, (1, 0) in every neighbouring pair, at positions 0 and 1.
fn roped(make: Make<'_>, pairing: Pairing, scale: f32, factors: Option<&[f32]>) -> Vec<f32> {
    rope_rows(make, |net| {
        let factors = factors.map(|factors| net.matrix("factors", 1, factors));
        Rope { scale, factors, ..Rope::new(64, pairing, 10_000.0) }
    })
}

/// The same rows by any RoPE.
fn rope_rows(make: Make<'_>, rope: impl FnOnce(&mut Net) -> Rope) -> Vec<f32> {
    let mut net = Net::default();
    let ones: Vec<f32> = (0..128).map(|i| ((i + 1) % 2) as f32).collect();
    let x = net.input("x", 2, &ones);
    let rope = rope(&mut net);
    let y = net.graph.rope("y", x, &rope);
    net.run(y, make(), &[rows(2)])
}

/// Zero queries weigh all positions equally, so row `p` is the mean of values `0..=p`, both in one step and position by
/// position.
pub fn attention_is_causal_and_uses_cached_positions(make: Make<'_>) {
    for format in [KvFormat::F16, KvFormat::F32] {
        let net = || {
            let mut net = Net::with_kv(2, format);
            let zero = net.input("zero", 40, &[0.0; 80]);
            let values: Vec<f32> = (0..80).map(|i| i as f32).collect();
            let v = net.input("v", 40, &values);
            let y = net.attention("y", [zero, zero, v], store(1, 2, 2), 1, 1.0);
            (net, y)
        };
        // The mean of 0, 2, …, 2p is p; of 1, 3, …, 2p + 1 it is p + 1.
        let expected: Vec<f32> = (0..40).flat_map(|p| [p as f32, p as f32 + 1.0]).collect();
        let (whole, y) = net();
        close(&whole.run(y, make(), &[sequence(0, 40)]), &expected, 1e-5);
        let (single, y) = net();
        let steps: Vec<_> = (0..40).map(|p| sequence(p, 1)).collect();
        close(&single.run(y, make(), &steps), &expected, 1e-5);
    }
}

/// A NaN key or value affects its own row and later ones, but no earlier row, even if computed together.
pub fn attention_ignores_later_positions(make: Make<'_>) {
    const NAN_ROW: usize = 37;
    for (k_at, v_at) in [(Some(NAN_ROW), None), (None, Some(NAN_ROW))] {
        let mut net = Net::with_kv(2, KvFormat::F32);
        let column = |at: Option<usize>| -> Vec<f32> {
            (0..40).map(|row| if at == Some(row) { f32::NAN } else { 1.0 }).collect()
        };
        let q = net.input("q", 40, &[1.0; 40]);
        let (k, v) = (net.input("k", 40, &column(k_at)), net.input("v", 40, &column(v_at)));
        let y = net.attention("y", [q, k, v], store(1, 1, 1), 1, 1.0);
        let found = net.run(y, make(), &[sequence(0, 40)]);
        close(&found[..NAN_ROW], &[1.0; NAN_ROW], 1e-6);
        assert!(found[NAN_ROW..].iter().all(|y| y.is_nan()), "{found:?}");
    }
}

/// NaN in columns of two values, of a prompt of several tiles of rows and of positions: rows that see them have NaN in these columns,
/// others and all other columns have the mean of ones. Nor does it matter that a block has NaN of another sequence behind the
/// positions of its own, to a prompt or to a single row.
pub fn attention_keeps_nan_to_rows_that_see_it(make: Make<'_>) {
    const ROWS: usize = 300;
    const NANS: [(usize, usize); 2] = [(37, 5), (223, 9)];
    for (dim, heads, kv_heads) in [(64, 1, 1), (64, 2, 1), (128, 1, 1), (128, 4, 2), (256, 2, 2), (24, 3, 1)]
    {
        let mut net = Net::with_kv(10, KvFormat::F16);
        let mut values = vec![1.0; ROWS * kv_heads * dim];
        for (row, col) in NANS {
            values[row * kv_heads * dim + col] = f32::NAN;
        }
        let zero = net.input("zero", ROWS, &vec![0.0; ROWS * heads * dim]);
        let key = net.input("key", ROWS, &vec![0.5; ROWS * kv_heads * dim]);
        let v = net.input("v", ROWS, &values);
        let y = net.attention("y", [zero, key, v], store(kv_heads, dim, dim), heads, 1.0);
        // Block 6 then has NaN at its last position.
        let after = Step::new(Row::logits(0..30, 0..30), vec![Sequence::uniform(0, 30, 1, [6])]);
        let single = Step::new(Row::logits(vec![30], 0..1), vec![Sequence::uniform(30, 1, 1, [6])]);
        let steps = [sequence(0, ROWS), after.expect("a good step"), single.expect("a good step")];
        let found = net.run(y, make(), &steps);
        for (i, found) in found.iter().enumerate() {
            let (row, head, col) = (i / (heads * dim), i / dim % heads, i % dim);
            let reads_first = head < heads / kv_heads;
            let is_nan = reads_first && row < ROWS && NANS.iter().any(|&(nan, of)| row >= nan && col == of);
            let what = format_args!(
                "{heads} heads of {dim}, {kv_heads} of K/V: row {row}, head {head}, column {col}"
            );
            assert!(if is_nan { found.is_nan() } else { (found - 1.0).abs() < 1e-3 }, "{what}: {found}");
        }
    }
}

/// NaN in a value before the window of later rows, in the block in which their window begins: these rows have the mean of ones.
pub fn attention_keeps_nan_out_of_a_window(make: Make<'_>) {
    const SPAN: usize = 20;
    const NAN: usize = 5;
    let prompt = vec![sequence(0, 60)];
    let single: Vec<Step> = (0..60).map(|p| sequence(p, 1)).collect();
    for (dim, steps) in [24, 64, 128, 256].into_iter().flat_map(|dim| [(dim, &single), (dim, &prompt)]) {
        let mut values = vec![1.0; 60 * dim];
        values[NAN * dim + 9] = f32::NAN;
        let mut net = Net::with_kv(2, KvFormat::F16);
        let zero = net.input("zero", 60, &vec![0.0; 60 * dim]);
        let v = net.input("v", 60, &values);
        let windowed = Store { mask: Mask::Window(SPAN), ..store(1, dim, dim) };
        let y = net.attention("y", [zero, zero, v], windowed, 1, 1.0);
        for (i, found) in net.run(y, make(), steps).iter().enumerate() {
            let (row, col) = (i / dim, i % dim);
            let is_nan = col == 9 && (NAN..NAN + SPAN).contains(&row);
            let is_good = if is_nan { found.is_nan() } else { (found - 1.0).abs() < 1e-3 };
            assert!(is_good, "row {row}, column {col} of {dim}: {found}");
        }
    }
}

/// A row that sees its own position alone has the value as FP8 stores it: all that are exact, the middles between two, their
/// neighbours, those beyond the largest one, and NaN for all that is not finite. In a prompt and row by row.
pub fn attention_rounds_values_to_fp8(make: Make<'_>) {
    let of = |code: u8| {
        let (x, next) = (E4M3(code).to_f32(), E4M3(code + 1).to_f32());
        let middle = (x + next) / 2.0;
        [x, middle, middle.next_down(), middle.next_up()]
    };
    let beyond = [448.0, 449.0, 464.0, 500.0, 7e4, f32::MAX, f32::INFINITY, f32::NAN];
    let positive: Vec<f32> = (0..0x7E).flat_map(of).chain(beyond).collect();
    const ROWS: usize = 70;
    for (dim, rows) in [(64, ROWS), (128, ROWS), (7, ROWS), (64, 1), (7, 1)] {
        let mut net = Net::with_kv(3, KvFormat { k: KvType::FP8, v: KvType::FP8 });
        let signed = positive.iter().flat_map(|&x| [x, -x]);
        let values: Vec<f32> = signed.cycle().take(ROWS * dim).collect();
        let zeros = vec![0.0; ROWS * dim];
        let (q, k) = (net.input("q", ROWS, &zeros), net.input("k", ROWS, &zeros));
        let v = net.input("v", ROWS, &values);
        let y = net.attention("y", [q, k, v], Store { mask: Mask::Window(1), ..store(1, dim, dim) }, 1, 1.0);
        let Some(mut loaded) = net.load_in_its_type(y, make()) else { return };
        let mut program = loaded.compile(Bucket { rows, outputs: rows }, Taps::None).expect("a good graph");
        for row in (0..ROWS).step_by(rows) {
            let found = program.run(&sequence(row, rows)).expect("a good step").values().to_vec();
            for (&x, &found) in values[row * dim..].iter().zip(&found) {
                let expected = E4M3::nearest(x).to_f32();
                let is_right = if x.is_finite() { found == expected } else { found.is_nan() };
                assert!(
                    is_right,
                    "{dim} columns, {rows} rows: {x:e} became {found:e}, expected {expected:e}"
                );
            }
        }
    }
}

/// Four query heads over two KV heads: heads 0 and 1 read the first, 2 and 3 the second.
pub fn attention_with_grouped_query_heads(make: Make<'_>) {
    let mut net = Net::default();
    let q = net.input("q", 1, &[1.0; 8]);
    let k = net.input("k", 1, &[1.0; 4]);
    let v = net.input("v", 1, &[1.0, 2.0, 3.0, 4.0]);
    let y = net.attention("y", [q, k, v], store(2, 2, 2), 4, 1.0);
    let found = net.run(y, make(), &[sequence(0, 1)]);
    close(&found, &[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0], 1e-6);
}

/// Scores 0 and `2 * (ln 3 / 2)`: weights 1/4 and 3/4.
pub fn attention_applies_softmax_to_scaled_scores(make: Make<'_>) {
    let mut net = Net::default();
    let q = net.input("q", 2, &[2.0, 0.0, 2.0, 0.0]);
    let k = net.input("k", 2, &[0.0, 5.0, 1.0, -5.0]);
    let v = net.input("v", 2, &[4.0, 0.0, 8.0, 4.0]);
    let y = net.attention("y", [q, k, v], store(1, 2, 2), 1, 3f32.ln() / 2.0);
    let found = net.run(y, make(), &[sequence(0, 2)]);
    close(&found, &[4.0, 0.0, 7.0, 3.0], 1e-5);
}

/// Scaled scores of 0 and 1000 are capped to 0 and nearly 1, also in a later step.
pub fn attention_caps_scores(make: Make<'_>) {
    for dim in [2, 16] {
        let mut net = Net::default();
        let x = |first: f32| [vec![first], vec![0.0; dim - 1]].concat();
        let q = net.input("q", 3, &[x(100.0), x(100.0), x(-100.0)].concat());
        let k = net.input("k", 3, &[x(0.0), x(20.0), x(0.0)].concat());
        let v = net.input("v", 3, &[x(4.0), x(8.0), x(4.0)].concat());
        let score = Score { scale: 0.5, cap: Some(1.0), sinks: None, alibi: None };
        let y = net.attention("y", [q, k, v], store(1, dim, dim), 1, score);
        let found = net.run(y, make(), &[sequence(0, 2), sequence(2, 1)]);
        let e = std::f32::consts::E;
        // The second of three positions has a score of -1.
        let expected = [4.0, (4.0 + 8.0 * e) / (1.0 + e), (8.0 + 8.0 / e) / (2.0 + 1.0 / e)];
        for (found, expected) in found.chunks(dim).zip(expected) {
            close(found, &x(expected), 1e-5);
        }
    }
}

/// With zero queries and values of 1, a sink of ln 3 counts like three positions without a value, one of -ln 2 like half of
/// one: row `p` is `(p + 1) / (p + 1 + 3)` and `(p + 1) / (p + 1.5)`.
pub fn attention_sinks_take_weight(make: Make<'_>) {
    for (dim, format) in [(16, KvFormat::F16), (4, KvFormat::F32), (3, KvFormat::F32)] {
        let steps: [Vec<Step>; 2] = [
            vec![sequence(0, 300)],
            vec![sequence(0, 40), sequence(40, 2), sequence(42, 256), sequence(298, 1), sequence(299, 1)],
        ];
        for steps in steps {
            let mut net = Net::with_kv(10, format);
            let q = net.input("q", 300, &vec![0.0; 300 * 2 * dim]);
            let [k, v] = [0.0, 1.0].map(|value| vec![value; 300 * dim]);
            let (k, v) = (net.input("k", 300, &k), net.input("v", 300, &v));
            let sinks = Some(net.matrix("sinks", 1, &[3f32.ln(), -2f32.ln()]));
            let score = Score { sinks, ..Score::from(1.0) };
            let y = net.attention("y", [q, k, v], store(1, dim, dim), 2, score);
            let heads = |p: usize| [3.0, 0.5].map(|sink| (p + 1) as f32 / ((p + 1) as f32 + sink));
            let expected: Vec<f32> =
                (0..300).flat_map(heads).flat_map(|y| std::iter::repeat_n(y, dim)).collect();
            close(&net.run(y, make(), &steps), &expected, 1e-5);
        }
    }
}

/// silu(1) = 0.7310586, silu(-1) = -0.2689414.
pub fn gate_silu(make: Make<'_>) {
    let mut net = Net::default();
    let gate = net.input("gate", 1, &[1.0, -1.0, 0.0, -200.0]);
    let up = net.input("up", 1, &[10.0, 10.0, 5.0, 1.0]);
    let y = net.graph.gate("y", gate, up, Activation::Silu);
    close(&net.run(y, make(), &[rows(1)]), &[7.310_586, -2.689_414, 0.0, 0.0], 1e-6);
}

/// Large sums are not clipped.
pub fn add_does_not_clip(make: Make<'_>) {
    let mut net = Net::default();
    let a = net.input("a", 1, &[1e3, -1e3, 9.0, 1e30]);
    let b = net.input("b", 1, &[1e3, -1e4, 2.0, 1e30]);
    let y = net.graph.add("y", a, b);
    close(&net.run(y, make(), &[rows(1)]), &[2e3, -1.1e4, 11.0, 2e30], 0.0);
}

/// Adds one row to rows of 20 columns, not a multiple of a vector; large sums are not clipped.
pub fn add_bias_broadcasts_one_row(make: Make<'_>) {
    let mut net = Net::default();
    let x: Vec<f32> = (0..60).map(|i| 100.0 * (i / 20) as f32 + (i % 20) as f32).collect();
    let w: Vec<f32> = (0..20).map(|k| 0.5 - 1000.0 * k as f32).collect();
    let x = net.input("x", 3, &x);
    let w = net.matrix("w", 1, &w);
    let y = net.graph.add_bias("y", x, w);
    let expected: Vec<f32> =
        (0..60).map(|i| 100.0 * (i / 20) as f32 - 999.0 * (i % 20) as f32 + 0.5).collect();
    close(&net.run(y, make(), &[rows(3)]), &expected, 0.0);
}

/// Ten times rows 1 and 3 of four. A step without outputs computes none and does not affect later steps.
pub fn only_output_rows_are_computed(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 4, &[1.0, 2.0, 3.0, 4.0]);
    let x = net.graph.output_rows("gathered", x);
    let w = net.matrix("w", 1, &[10.0]);
    let y = net.graph.linear("y", x, w);
    let (_, mut loaded) = net.load(y, make()).expect("a good graph");
    let mut program = loaded.compile(Bucket { rows: 4, outputs: 4 }, Taps::None).expect("a good graph");
    for (outputs, expected) in [(vec![1, 3], vec![20.0, 40.0]), (vec![], vec![]), (vec![2], vec![30.0])] {
        let sequences = vec![Sequence::uniform(0, 4, 0, [])];
        let step = Step::new(Row::logits(vec![0, 1, 2, 3], outputs), sequences).expect("a good step");
        close(program.run(&step).expect("a good step").values(), &expected, 0.0);
    }
}

/// GELU, tanh approximation: gelu(1) = 0.841192, gelu(-1) = -0.158808, gelu(3) = 2.996363 (PyTorch's
/// `approximate="tanh"`).
pub fn gate_gelu(make: Make<'_>) {
    let mut net = Net::default();
    let gate = net.input("gate", 1, &[1.0, -1.0, 0.0, 3.0, -200.0, 200.0, -3.0]);
    let up = net.input("up", 1, &[10.0, 10.0, 5.0, 1.0, 1.0, 0.5, 1000.0]);
    let y = net.graph.gate("y", gate, up, Activation::GeluTanh);
    let expected = [8.411_92, -1.588_08, 0.0, 2.996_363, 0.0, 100.0, -3.637_392];
    close(&net.run(y, make(), &[rows(1)]), &expected, 1e-5);
}

/// Two heads of two columns with separate means: mean(3^2, 4^2) + 3.5 = 16, mean(0, 5^2) + 3.5 = 16.
pub fn rms_norm_of_heads(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 1, &[3.0, 4.0, 0.0, 5.0]);
    let w = net.matrix("w", 1, &[4.0, 8.0]);
    let y = net.graph.rms_norm("y", x, w, 3.5);
    close(&net.run(y, make(), &[rows(1)]), &[3.0, 8.0, 0.0, 10.0], 1e-6);
}

/// Every value times the factor.
pub fn scale_multiplies_by_a_factor(make: Make<'_>) {
    let mut net = Net::default();
    let x: Vec<f32> = (0..42).map(|i| i as f32 - 20.0).collect();
    let expected: Vec<f32> = x.iter().map(|x| x * -2.5).collect();
    let x = net.input("x", 2, &x);
    let y = net.graph.scale("y", x, -2.5);
    close(&net.run(y, make(), &[rows(2)]), &expected, 0.0);
}

/// Zero queries weigh all visible positions equally, so that row `p` is the mean of the visible values.
fn means(mask: Mask, format: KvFormat, make: Make<'_>, steps: &[Step]) -> Vec<f32> {
    let mut net = Net::with_kv(3, format);
    let zero = net.input("zero", 70, &[0.0; 70]);
    let values: Vec<f32> = (0..70).map(|i| (3 * i) as f32).collect();
    let v = net.input("v", 70, &values);
    let y = net.attention("y", [zero, zero, v], Store { mask, ..store(1, 1, 1) }, 1, 1.0);
    net.run(y, make(), steps)
}

/// The last three positions, or chunks of three, in one step and position by position, across block boundaries.
pub fn attention_respects_its_mask(make: Make<'_>) {
    // The means of the values 3 p of the last three positions, and of those from the last multiple of three on.
    let window = |p: i32| if p < 2 { 1.5 * p as f32 } else { (3 * p - 3) as f32 };
    let chunk = |p: i32| (p / 3 * 9) as f32 + 1.5 * (p % 3) as f32;
    let expected: [(Mask, Vec<f32>); 2] =
        [(Mask::Window(3), (0..70).map(window).collect()), (Mask::Chunk(3), (0..70).map(chunk).collect())];
    let steps: [Vec<Step>; 3] = [
        vec![sequence(0, 64), sequence(64, 6)],
        (0..70).map(|p| sequence(p, 1)).collect(),
        vec![sequence(0, 31), sequence(31, 2), sequence(33, 37)],
    ];
    for format in [KvFormat::F16, KvFormat::F32] {
        for (mask, expected) in &expected {
            for steps in &steps {
                close(&means(*mask, format, make, steps), expected, 1e-5);
            }
        }
    }
}

/// All positions, and one position on both sides.
pub fn attention_sees_later_rows(make: Make<'_>) {
    let around = |p| {
        if p == 0 {
            1.5
        } else if p == 69 {
            205.5
        } else {
            (3 * p) as f32
        }
    };
    for format in [KvFormat::F16, KvFormat::F32] {
        let run = |mask| means(mask, format, make, &[sequence(0, 70)]);
        close(&run(Mask::Full), &[103.5; 70], 1e-5);
        close(&run(Mask::Around(3)), &(0..70).map(around).collect::<Vec<f32>>(), 1e-5);
    }
}

/// A second attention operation reads the store that the first writes. With zero queries both return the mean of its
/// values.
pub fn attention_reads_a_shared_store(make: Make<'_>) {
    let mut net = Net::with_kv(2, KvFormat::F32);
    let zero = net.input("zero", 40, &[0.0; 40]);
    let values: Vec<f32> = (0..40).map(|i| (2 * i) as f32).collect();
    let v = net.input("v", 40, &values);
    let shared = net.graph.store(store(1, 1, 1));
    let first = net.graph.attention("first", zero, Some([zero, v]), shared, 1, 1.0);
    let second = net.graph.attention("second", zero, None, shared, 1, 1.0);
    let y = net.graph.add("y", first, second);
    let expected: Vec<f32> = (0..40).map(|p| (2 * p) as f32).collect();
    close(&net.run(y, make(), &[sequence(0, 33), sequence(33, 7)]), &expected, 1e-5);
}

/// Rows that request only the greedy token, and rows that also request logits or top tokens.
pub fn greedy_tokens_and_top_tokens(make: Make<'_>) {
    let mut net = Net::default();
    let logits = [[0.0, 7.0, 7.0, -1.0], [5.0, 4.0, 3.0, 2.0], [-4.0, -3.0, -2.0, f32::NEG_INFINITY]];
    let x = net.input("x", 3, logits.as_flattened());
    let mut program = net.compile(x, make()).expect("a good graph");
    let mut run = |outputs: [Output; 3]| {
        let rows = outputs.iter().zip(0..).flat_map(|(output, token)| Row::all([token], output)).collect();
        let step = Step::new(rows, vec![Sequence::uniform(0, 3, 0, [])]);
        let outputs_found = program.run(&step.expect("a good step")).expect("a good step");
        let row = |i: usize| {
            let top: Vec<u32> = outputs_found.top(i).iter().map(|(token, _)| *token).collect();
            (outputs_found.token(i), outputs_found.logits(i).is_some(), top)
        };
        (0..outputs.len()).map(row).collect::<Vec<_>>()
    };
    let tokens = run([Output::Greedy, Output::Greedy, Output::Greedy]);
    assert_eq!(tokens.iter().map(|(token, ..)| *token).collect::<Vec<_>>(), [Some(1), Some(0), Some(2)]);
    let some = run([Output::Top(2), Output::Logits, Output::Greedy]);
    assert_eq!((some[0].0, &some[0].2), (None, &vec![1, 2]));
    assert_eq!((some[1].0, some[1].1, some[1].2.len()), (None, true, 0));
    assert_eq!(some[2].0, Some(2));
}

/// Steps whose rows take tokens of the step before, submitted before that has been waited for: rows are left out and change places,
/// and one has no token, so that the row after it has nothing to compute. A backend may refuse such steps.
pub fn steps_follow_each_other(make: Make<'_>) {
    const N: usize = 37;
    // The token after a token; none after the last one.
    let next = |token: u32| (token * 5 + 3) % N as u32;
    let mut table = vec![[0.0; N]; N];
    for (token, row) in table[..N - 1].iter_mut().enumerate() {
        row[next(token as u32) as usize] = 1.0;
    }
    table[N - 1] = [f32::NEG_INFINITY; N];
    let mut net = Net::default();
    let x = net.input("x", N, table.as_flattened());
    let mut program = net.compile(x, make()).expect("a good graph");
    let step = |inputs: &[Input]| {
        let rows = inputs.iter().map(|&input| Row { input, output: Output::Greedy }).collect();
        Step::new(rows, vec![Sequence::uniform(0, inputs.len(), 0, [])]).expect("a good step")
    };
    let mut tokens: Vec<u32> = vec![0, 11, 7, 36, 19, 28];
    let inputs: Vec<Input> = tokens.iter().copied().map(Input::Token).collect();
    let mut ticket = program.submit(&step(&inputs)).expect("a good step");
    for turn in 0..12 {
        // All in order, then in reverse order; the last one is left out at times.
        let mut follows: Vec<u32> = (0..tokens.len() as u32).collect();
        if turn % 3 == 1 {
            follows.reverse();
        }
        if turn == 5 || turn == 9 {
            follows.pop();
        }
        let following = step(&follows.iter().copied().map(Input::Ahead).collect::<Vec<_>>());
        if !program.can_follow() {
            assert!(program.submit(&following).is_err(), "its tokens would be wrong");
            return;
        }
        let too_far = step(&[Input::Ahead(tokens.len() as u32)]);
        assert!(program.submit(&too_far).is_err(), "there is no such row");
        let after = program.submit(&following).expect("a good step");
        let outputs = program.wait(ticket).expect("a good step");
        let chosen: Vec<Option<u32>> = (0..tokens.len()).map(|row| outputs.token(row)).collect();
        let has_next = |&token: &u32| (token as usize != N - 1).then(|| next(token));
        assert_eq!(chosen, tokens.iter().map(has_next).collect::<Vec<_>>(), "step {turn}");
        tokens = follows.iter().map(|&row| chosen[row as usize].unwrap_or(0)).collect();
        ticket = after;
    }
    let outputs = program.wait(ticket).expect("a good step");
    assert_eq!(outputs.token(0), Some(next(tokens[0])));
    let after_logits = Step::new(Row::logits([1], [0]), vec![Sequence::uniform(0, 1, 0, [])]);
    let outputs = program.run(&after_logits.expect("a good step")).expect("a good step");
    assert_eq!(outputs.logits(0), Some(&table[1][..]));
    let follows_logits = step(&[Input::Ahead(0)]);
    assert!(program.submit(&follows_logits).is_err(), "the host chooses from logits");
}

/// Rows with a NaN or +∞ logit, or with -∞ alone, have no token; other rows are not affected.
pub fn rows_with_invalid_logits_have_no_token(make: Make<'_>) {
    let none = f32::NEG_INFINITY;
    let mut rows = [[none; 300], [none; 300], [none; 300], [none; 300], [-7.0; 300]];
    (rows[0][299], rows[1][3], rows[2][299]) = (f32::NAN, f32::INFINITY, -1e30);
    (rows[0][0], rows[1][4], rows[4][290]) = (1.0, f32::MAX, 0.0);
    let mut net = Net::default();
    let x = net.input("x", 5, rows.as_flattened());
    let mut program = net.compile(x, make()).expect("a good graph");
    let step = Step::new(Row::all(0..5, &Output::Greedy), vec![Sequence::uniform(0, 5, 0, [])]);
    let outputs = program.run(&step.expect("a good step")).expect("a good step");
    let tokens: Vec<_> = (0..5).map(|row| outputs.token(row)).collect();
    assert_eq!(tokens, [None, None, Some(299), None, Some(290)]);
}

/// Vocabularies smaller than the number of candidates, of odd sizes and of many parts, with ties and impossible tokens. A backend may
/// return logits instead.
pub fn candidates_are_the_best_tokens(make: Make<'_>) {
    for cols in [1, 5, 63, 64, 65, 4095, 4097, 40_003] {
        let mut row: Vec<f32> = (0..cols as u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 8) as f32).collect();
        let distinct = row.clone();
        row.iter_mut().for_each(|logit| *logit = (*logit / 4e6).floor() - 2.0);
        let ties = row.clone();
        row.iter_mut().step_by(3).for_each(|logit| *logit = f32::NEG_INFINITY);
        row[cols / 2] = -0.0;
        let mut rows = vec![distinct, ties, row, vec![f32::NEG_INFINITY; cols], vec![0.5; cols]];
        for broken in [f32::NAN, f32::INFINITY] {
            rows.push(vec![1.0; cols]);
            rows.last_mut().expect("just added")[cols - 1] = broken;
        }
        let mut net = Net::default();
        let x = net.input("x", rows.len(), &rows.concat());
        let mut program = net.compile(x, make()).expect("a good graph");
        let n = rows.len();
        let mut run = |greedy: &dyn Fn(usize) -> bool| {
            let mut step_rows = Row::all(0..n as u32, &Output::Candidates);
            let greedy_rows = step_rows.iter_mut().enumerate().filter(|(i, _)| greedy(*i));
            greedy_rows.for_each(|(_, row)| row.output = Output::Greedy);
            let step = Step::new(step_rows, vec![Sequence::uniform(0, n, 0, [])]);
            let outputs = program.run(&step.expect("a good step")).expect("a good step");
            for (i, row) in rows.iter().enumerate() {
                let expected = crate::best(row, MAX_CANDIDATES);
                let what = format!("row {i} of {cols} columns");
                if greedy(i) {
                    assert_eq!(outputs.token(i), expected.first().map(|(id, _)| *id), "{what}");
                } else if let Some(logits) = outputs.logits(i) {
                    assert_eq!(crate::best(logits, MAX_CANDIDATES), expected, "{what}");
                } else {
                    assert_eq!(outputs.candidates(i).unwrap_or_default(), expected, "{what}");
                }
            }
        };
        run(&|_| false);
        run(&|i| i % 2 == 0);
        run(&|i| i % 2 == 1);
    }
}
