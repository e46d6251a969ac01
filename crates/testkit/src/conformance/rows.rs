//! Hand-computed answers of the row-wise operations that few families use, and of linear layers of heads.

use graph::{Activation, Glu, NormKind, Op, ValueId};
use quant::Format;

use super::Make;
use super::net::{Net, close, compare, normal, rows, step};

/// Norms of (3, 4), (0, 5) and (1, 3), (4, 4): mean squares of 12.5 plus 3.5 are 16; variances of 1 and 0 plus 3 are 4 and 3.
fn norm(make: Make<'_>, kind: NormKind, weight: Option<&[f32]>, expected: &[f32]) {
    let (x, eps) = match kind {
        NormKind::Rms => ([3.0, 4.0, 0.0, 5.0], 3.5),
        NormKind::Layer => ([1.0, 3.0, 4.0, 4.0], 3.0),
        NormKind::L2 => ([3.0, 4.0, 0.0, 5.0], 11.0),
    };
    let mut net = Net::default();
    let x = net.input("x", 2, &[x, x].concat());
    let weight = weight.map(|weight| net.matrix("w", 1, weight));
    let y = net.graph.norm("y", x, kind, 2, weight, eps);
    close(&net.run(y, make(), &[rows(2)]), &[expected, expected].concat(), 1e-6);
}

/// Mean and variance per group; the weight repeats.
pub fn layer_norm_subtracts_the_mean(make: Make<'_>) {
    norm(make, NormKind::Layer, Some(&[2.0, 4.0]), &[-1.0, 2.0, 0.0, 0.0]);
}

/// Both squared lengths of 25 plus 11 are 36.
pub fn l2_norm_divides_by_the_length(make: Make<'_>) {
    norm(make, NormKind::L2, None, &[0.5, 4.0 / 6.0, 0.0, 5.0 / 6.0]);
    norm(make, NormKind::L2, Some(&[6.0, 3.0]), &[3.0, 2.0, 0.0, 2.5]);
}

/// Norms without a weight.
pub fn norms_have_no_weight(make: Make<'_>) {
    norm(make, NormKind::Rms, None, &[0.75, 1.0, 0.0, 1.25]);
    norm(make, NormKind::Layer, None, &[-0.5, 0.5, 0.0, 0.0]);
}

/// Each group has its own weights.
pub fn norms_of_groups_have_a_weight_per_column(make: Make<'_>) {
    norm(make, NormKind::Rms, Some(&[4.0, 8.0, 1.0, 2.0]), &[3.0, 8.0, 0.0, 2.5]);
    norm(make, NormKind::Layer, Some(&[2.0, 4.0, 1.0, 2.0]), &[-1.0, 2.0, 0.0, 0.0]);
}

/// A mean far from zero does not cancel the digits of the variance.
pub fn layer_norm_of_a_large_mean(make: Make<'_>) {
    let mut net = Net::default();
    let x: Vec<f32> = (0..300).map(|i| 4096.0 + (i % 2) as f32).collect();
    let x = net.input("x", 1, &x);
    let y = net.graph.norm("y", x, NormKind::Layer, 300, None, 0.0);
    let expected: Vec<f32> = (0..300).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 }).collect();
    close(&net.run(y, make(), &[rows(1)]), &expected, 1e-5);
}

/// `2 tanh(x / 2)`; tanh(1) = 0.7615942, tanh(0.1) = 0.0996680.
pub fn softcap_is_nearly_linear_then_flat(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 2, &[0.0, 2.0, 0.2, -2.0, 1e4, -1e4]);
    let y = net.graph.softcap("y", x, 2.0);
    close(&net.run(y, make(), &[rows(2)]), &[0.0, 1.523_188, 0.199_336, -1.523_188, 2.0, -2.0], 1e-6);
}

/// Every activation at 1, -2, 0 and ±200, alone and as a gate.
pub fn activations(make: Make<'_>) {
    for (act, expected) in [
        (Activation::Silu, [0.731_058_6, -0.238_405_8, 0.0, 200.0, 0.0]),
        (Activation::GeluTanh, [0.841_192, -0.045_402_3, 0.0, 200.0, 0.0]),
        (Activation::GeluSigmoid, [0.845_795_8, -0.064_341_4, 0.0, 200.0, 0.0]),
        (Activation::Sigmoid, [0.731_058_6, 0.119_202_9, 0.5, 1.0, 0.0]),
        // ln(1 + e), ln(1 + e^-2), ln 2.
        (Activation::Softplus, [1.313_261_7, 0.126_928, std::f32::consts::LN_2, 200.0, 0.0]),
        (Activation::Relu, [1.0, 0.0, 0.0, 200.0, 0.0]),
        (Activation::ReluSquared, [1.0, 0.0, 0.0, 40_000.0, 0.0]),
        (Activation::Identity, [1.0, -2.0, 0.0, 200.0, -200.0]),
    ] {
        let x = [1.0, -2.0, 0.0, 200.0, -200.0];
        let mut net = Net::default();
        let x = net.input("x", 1, &x);
        let y = net.graph.act("y", x, act);
        close(&net.run(y, make(), &[rows(1)]), &expected, 1e-6);
        let mut net = Net::default();
        let (x, up) = (net.input("x", 1, &[1.0, -2.0, 0.0, 200.0, -200.0]), net.input("up", 1, &[3.0; 5]));
        let y = net.graph.gate("y", x, up, act);
        close(&net.run(y, make(), &[rows(1)]), &expected.map(|y| 3.0 * y), 1e-6);
    }
}

/// sigmoid(ln 3) = 3/4 and sigmoid(-ln 3) = 1/4 times all columns of a row.
pub fn a_gate_of_one_column_applies_to_the_row(make: Make<'_>) {
    let mut net = Net::default();
    let gate = net.input("gate", 2, &[3f32.ln(), -3f32.ln()]);
    let up: Vec<f32> = (0..2 * 21).map(|i| i as f32).collect();
    let expected: Vec<f32> = (0..2 * 21).map(|i| i as f32 * if i < 21 { 0.75 } else { 0.25 }).collect();
    let up = net.input("up", 2, &up);
    let y = net.graph.gate("y", gate, up, Activation::Sigmoid);
    close(&net.run(y, make(), &[rows(2)]), &expected, 1e-6);
}

/// With a limit of 7, gates of 8 and 200 are 7, but -200 stays; ups of ±9 are ±7; 1 is added to ups. NaN stays NaN. The same
/// if the gate and up are computed by linear layers.
pub fn a_gate_with_a_limit(make: Make<'_>) {
    let nan = f32::NAN;
    let gate = [2.0, 8.0, 200.0, -200.0, 3.0, nan, 2.0];
    let up = [3.0, 9.0, -9.0, 1.0, -9.0, 2.0, nan];
    let expected = [8.0, 56.0, -42.0, -400.0, -18.0];
    let glu = Glu { act: Activation::Identity, limit: Some(7.0) };
    for has_linears in [false, true] {
        let mut net = Net::default();
        let mut one = |name: &'static str, values: &[f32]| {
            let x = net.input(name, 7, values);
            let w = net.matrix("one", 1, &[1.0]);
            if has_linears { net.graph.linear((name, 0), x, w) } else { x }
        };
        let (gate, up) = (one("gate", &gate), one("up", &up));
        let y = net.graph.gate("y", gate, up, glu);
        let found = net.run(y, make(), &[rows(7)]);
        close(&found[..5], &expected, 1e-6);
        assert!(found[5].is_nan() && found[6].is_nan(), "{found:?}");
    }
    // gelu_sigmoid(7) * (7 + 1), both of the same input: the gate is fused with its linear layers.
    let mut net = Net::default();
    let x = net.input("x", 1, &[1.0]);
    let weights = [net.matrix("gates", 3, &[1.0, 9.0, -1.0]), net.matrix("ups", 3, &[2.0, 9.0, -9.0])];
    let [gate, up] = [net.graph.linear("gate", x, weights[0]), net.graph.linear("up", x, weights[1])];
    let y = net.graph.gate("y", gate, up, Glu { act: Activation::GeluSigmoid, limit: Some(7.0) });
    let expected = [3.0 * 0.845_795_8, 8.0 * 6.999_953, 6.0 * 0.154_204_2];
    close(&net.run(y, make(), &[rows(1)]), &expected, 1e-5);
}

/// A weight of all columns, and one that repeats.
pub fn mul_weight_repeats(make: Make<'_>) {
    for w in [vec![1.0, 10.0, 100.0, -1.0, 0.0, 0.5], vec![2.0, -3.0], vec![4.0]] {
        let mut net = Net::default();
        let x: Vec<f32> = (1..=12).map(|i| i as f32).collect();
        let expected: Vec<f32> = (0..12).map(|i| (i + 1) as f32 * w[i % 6 % w.len()]).collect();
        let x = net.input("x", 2, &x);
        let w = net.matrix("w", 1, &w);
        let y = net.graph.mul_weight("y", x, w);
        close(&net.run(y, make(), &[rows(2)]), &expected, 0.0);
    }
}

/// With an offset of 1 and intervals of 3, positions 0 and 1 are in interval 0, 2 to 4 in interval 1. The same in a later
/// step, and with intervals of 8192 up to the last position before the second.
pub fn scale_by_position_depends_on_the_interval(make: Make<'_>) {
    let scaled = |interval, offset, steps: &[backend::Step]| {
        let mut net = Net::default();
        let x = net.input("x", 20_000, &vec![2.0; 2 * 20_000]);
        let y = net.graph.op("y", Op::ScaleByPosition { x, beta: 0.5, offset, interval });
        net.run(y, make(), steps)
    };
    let factor = |interval: usize| 2.0 + (1.0 + interval as f32).ln();
    let expected: Vec<f32> = (0..50).flat_map(|p| [factor((p + 1) / 3); 2]).collect();
    close(&scaled(3.0, 1.0, &[step(0, 7, 0), step(7, 43, 0)]), &expected, 1e-6);
    let expected: Vec<f32> = [0, 1, 1].into_iter().flat_map(|interval| [factor(interval); 2]).collect();
    close(&scaled(8192.0, 0.0, &[step(8191, 3, 0)]), &expected, 1e-6);
}

/// Heads (1, 2, 3) and (4, 5, 6) times two rows each.
pub fn head_linear_uses_a_matrix_per_head(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let values = [1.0f32, 10.0, 100.0, 0.0, 0.0, 1.0, 1.0, -1.0, 1.0, 2.0, 0.0, 0.0];
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let w = net.weights("w", Format::F32, [2, 2, 3], bytes);
    let y = net.graph.head_linear("y", x, w);
    close(&net.run(y, make(), &[rows(2)]), &[321.0, 3.0, 5.0, 8.0, 10.0, 0.0, 1.0, 0.0], 0.0);
}

/// Columns 1 and 2 of heads of four, and all columns.
pub fn slice_takes_columns_of_each_head(make: Make<'_>) {
    let slice = |range: std::ops::Range<usize>| {
        let mut net = Net::default();
        let x: Vec<f32> = (0..16).map(|i| i as f32).collect();
        let x = net.input("x", 2, &x);
        let y = net.graph.slice("y", x, 2, range);
        net.run(y, make(), &[rows(2)])
    };
    close(&slice(1..3), &[1.0, 2.0, 5.0, 6.0, 9.0, 10.0, 13.0, 14.0], 0.0);
    close(&slice(3..4), &[3.0, 7.0, 11.0, 15.0], 0.0);
}

/// Heads of two columns and of one, and one head for all.
pub fn join_alternates_heads(make: Make<'_>) {
    let join = |a: &[f32], b: &[f32], b_heads: usize| {
        let mut net = Net::default();
        let (a, b) = (net.input("a", 2, a), net.input("b", 2, b));
        let y = net.graph.join("y", [a, b], 2, b_heads);
        net.run(y, make(), &[rows(2)])
    };
    let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let two = join(&a, &[10.0, 20.0, 30.0, 40.0], 2);
    close(&two, &[1.0, 2.0, 10.0, 3.0, 4.0, 20.0, 5.0, 6.0, 30.0, 7.0, 8.0, 40.0], 0.0);
    let one = join(&a, &[10.0, 20.0, 30.0, 40.0], 1);
    let expected = [1.0, 2.0, 10.0, 20.0, 3.0, 4.0, 10.0, 20.0, 5.0, 6.0, 30.0, 40.0, 7.0, 8.0, 30.0, 40.0];
    close(&one, &expected, 0.0);
}

/// Linear layers of heads in formats with and without blocks, of aligned and odd sizes, one row and many.
pub fn head_linear_in_several_formats(make: Make<'_>, oracle: Make<'_>) {
    for (format, sizes, limit) in [
        (Format::F32, [3, 5, 37], 1e-6),
        (Format::F32, [4, 100, 100], 1e-6),
        (Format::F16, [2, 33, 36], 1e-6),
        (Format::F16, [1, 3, 66], 1e-6),
        (Format::Q8_0, [4, 70, 64], 5e-4),
        (Format::Q4_K, [2, 9, 256], 5e-4),
    ] {
        head_linear(make, oracle, format, sizes, limit);
    }
}

/// Heads of more outputs and columns than a workgroup computes at a time.
pub fn head_linear_of_large_heads(make: Make<'_>, oracle: Make<'_>) {
    head_linear(make, oracle, Format::Q8_0, [3, 130, 384], 5e-4);
    // Whole tiles of 1,024 columns, and heads that begin at odd rows.
    head_linear(make, oracle, Format::Q8_0, [3, 33, 1024], 5e-4);
}

/// Heads of a single output, each a pair of its own: more pairs than half the outputs, and than a block has room for.
pub fn head_linear_of_many_heads(make: Make<'_>, oracle: Make<'_>) {
    head_linear(make, oracle, Format::Q8_0, [1100, 1, 32], 5e-4);
}

/// Heads, outputs and columns of each.
fn head_linear(
    make: Make<'_>,
    oracle: Make<'_>,
    format: Format,
    [heads, outputs, cols]: [usize; 3],
    limit: f64,
) {
    const SEED: u64 = 11;
    compare(
        [oracle, make],
        &[1, 2, 7, 9, 64],
        limit,
        format_args!("{format}, seed {SEED}, {heads} heads of {cols} to {outputs}"),
        |net| {
            let x = net.input("x", 64, &normal(SEED, "x", 64 * heads * cols));
            let bytes = crate::random_matrix(format, heads * outputs * cols, 0.1, 3);
            let w = net.weights("w", format, [heads, outputs, cols], bytes);

            net.graph.head_linear("y", x, w)
        },
    );
}

/// All of them after another, with columns that fill no vector and rows that fill no workgroup: each reads what the one
/// before has written.
pub fn row_wise_operations_in_a_chain(make: Make<'_>, oracle: Make<'_>) {
    const SEED: u64 = 12;
    compare([oracle, make], &[1, 5, 64], 1e-6, format_args!("seed {SEED}"), |net| {
        let x = net.input("x", 64, &normal(SEED, "x", 64 * 1806));
        let column = net.input("column", 64, &normal(SEED, "column", 64));
        let w = net.matrix("w", 1, &normal(SEED, "w", 301));
        let wide = net.matrix("wide", 1, &normal(SEED, "wide", 1806));
        let g = &mut net.graph;
        let mut y: ValueId = g.norm("rms", x, NormKind::Rms, 301, Some(wide), 1e-3);
        y = g.mul_weight("mul", y, w);
        y = g.norm("layer", y, NormKind::Layer, 602, None, 1e-3);
        y = g.op("by position", Op::ScaleByPosition { x: y, beta: 0.3, offset: 2.0, interval: 5.0 });
        y = g.gate("gated", column, y, Activation::GeluSigmoid);
        let (narrow, rest) = (g.slice("narrow", y, 6, 0..100), g.slice("rest", y, 6, 100..301));
        y = g.join("joined", [rest, narrow], 6, 6);
        let limited = Glu { act: Activation::Sigmoid, limit: Some(0.5) };
        y = g.gate("limited", y, x, limited);
        y = g.softcap("capped", y, 0.7);
        y
    });
}

/// Groups of more columns than a warp has registers for, with one column for some threads of a block and with many.
pub fn norms_of_many_columns(make: Make<'_>, oracle: Make<'_>) {
    const SEED: u64 = 13;
    for (cols, kind) in [
        (1027, NormKind::Rms),
        (1500, NormKind::L2),
        (2051, NormKind::Layer),
        (4096, NormKind::Rms),
        (4096, NormKind::Layer),
    ] {
        compare([oracle, make], &[1, 5], 1e-10, format_args!("{kind:?} of {cols} columns"), |net| {
            let x = net.input("x", 5, &normal(SEED, "x", 5 * 2 * cols));
            let w = net.matrix("w", 1, &normal(SEED, "w", 2 * cols));
            net.graph.norm("y", x, kind, cols, Some(w), 1e-3)
        });
    }
}
