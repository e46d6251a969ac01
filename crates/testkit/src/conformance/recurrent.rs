//! Convolution and linear attention: hand-computed answers, and random ones in steps of several sequences.

use backend::{KV_BLOCK, Row, Sequence, Slots, Step};
use graph::{LinearHeads, Op, ValueId};

use super::Make;
use super::net::{Net, close, nmse, normal, rows};

const SEED: u64 = 77;
const TOKENS: usize = 200;

/// Squared relative error of f32 sums.
const LIMIT: f64 = 1e-10;

/// Two columns, three taps: 1, 10, 100 and 0, 0, 2, with biases of 0.5 and 0; the second step continues the first.
pub fn conv_continues_over_steps(make: Make<'_>) {
    let mut net = Net::default();
    let x: Vec<f32> = (1..=10).map(|i| i as f32).collect();
    let x = net.input("x", 5, &x); // (1, 2), (3, 4), …
    let weight = net.matrix("w", 2, &[1.0, 10.0, 100.0, 0.0, 0.0, 2.0]);
    let bias = net.matrix("b", 1, &[0.5, 0.0]);
    let y = net.graph.conv("y", x, weight, Some(bias));
    let steps = [step(0..2, 0..2, Slots::default()), step(2..5, 2..5, Slots::default())];
    let expected = [100.5, 4.0, 310.5, 8.0, 531.5, 12.0, 753.5, 16.0, 975.5, 20.0];
    close(&net.run(y, make(), &steps), &expected, 1e-6);
}

/// One head of one key and one value column. Without the delta rule `S` is 0.5 S + 2 k v: 2 * 3 * 1 = 6, then
/// 3 + 2 * 1 * 5 = 13; results are 4 q S + 10 v. With it, `v` is what `S` lacks: after 6 the second row adds
/// 2 * 1 * (5 - 3) to 3.
pub fn linear_attention_of_one_column(make: Make<'_>) {
    for (is_delta, expected) in
        [(false, [4.0 * 6.0 + 10.0, 8.0 * 13.0 + 50.0]), (true, [34.0, 8.0 * 7.0 + 50.0])]
    {
        let mut net = Net::default();
        let mut input = |name, values: [f32; 2]| net.input(name, 2, &values);
        let (q, k, v) = (input("q", [1.0, 2.0]), input("k", [3.0, 1.0]), input("v", [1.0, 5.0]));
        let (decay, beta) = (input("decay", [0.5f32.ln(); 2]), input("beta", [2.0; 2]));
        let skip = Some(net.matrix("skip", 1, &[10.0]));
        let heads = LinearHeads { heads: 1, k_heads: 1, is_tiled: false, scale: 4.0, is_delta };
        let y = net.graph.op("y", Op::LinearAttention { q, k, v, decay, beta, skip, heads });
        close(&net.run(y, make(), &[rows(2)]), &expected, 1e-6);
    }
}

/// Four value heads and two key heads whose only products are 1 and 10: heads 0, 1 and 2, 3 share, or 0, 2 and 1, 3.
pub fn linear_attention_shares_key_heads(make: Make<'_>) {
    for (is_tiled, expected) in [(false, [1.0, 2.0, 30.0, 40.0]), (true, [1.0, 20.0, 3.0, 40.0])] {
        let mut net = Net::default();
        let mut input = |name, values: &[f32]| net.input(name, 1, values);
        let (q, k) = (input("q", &[1.0, 1.0]), input("k", &[1.0, 10.0]));
        let v = input("v", &[1.0, 2.0, 3.0, 4.0]);
        let (decay, beta) = (input("decay", &[0.0; 4]), input("beta", &[1.0; 4]));
        let heads = LinearHeads { heads: 4, k_heads: 2, is_tiled, scale: 1.0, is_delta: false };
        let y = net.graph.op("y", Op::LinearAttention { q, k, v, decay, beta, skip: None, heads });
        close(&net.run(y, make(), &[rows(1)]), &expected, 1e-6);
    }
}

/// A step of one sequence.
fn step(tokens: std::ops::Range<u32>, positions: std::ops::Range<usize>, slots: Slots) -> Step {
    make_step(tokens.start, vec![part(positions.start, positions.len(), slots)])
}

fn part(n_past: usize, len: usize, slots: Slots) -> Sequence {
    let blocks = (n_past + len).div_ceil(KV_BLOCK);
    Sequence { slots, ..Sequence::uniform(n_past, len, 0, 0..blocks as u32) }
}

/// A step with all rows as outputs, whose tokens are `first`, `first + 1`, ….
fn make_step(first: u32, sequences: Vec<Sequence>) -> Step {
    let rows = sequences.iter().map(|sequence| sequence.len).sum::<usize>() as u32;
    let tokens = (first..first + rows).map(|token| token % TOKENS as u32);
    Step::new(Row::logits(tokens, 0..rows), sequences).expect("a good step")
}

/// Three sequences in steps of all sizes: each in place, from slot to slot, or from a checkpoint that two continue.
fn steps() -> Vec<Step> {
    let at = |read, write, checkpoint| Slots { read, write, checkpoint };
    vec![
        make_step(0, vec![part(0, 37, at(0, 0, None)), part(0, 70, at(9, 1, Some((64, 2))))]),
        make_step(
            3,
            vec![part(37, 1, at(0, 0, None)), part(70, 2, at(1, 3, None)), part(0, 1, at(0, 4, None))],
        ),
        make_step(5, vec![part(64, 9, at(2, 5, Some((1, 1)))), part(64, 5, at(2, 6, None))]),
        make_step(
            7,
            vec![part(38, 3, at(0, 7, None)), part(1, 66, at(4, 8, None)), part(65, 3, at(1, 9, None))],
        ),
        make_step(9, vec![part(41, 1, at(7, 7, None))]),
    ]
}

fn compare(make: Make<'_>, oracle: Make<'_>, what: &str, build: impl Fn(&mut Net) -> ValueId) {
    let run = |make: Make<'_>| {
        let mut net = Net { blocks: 10, ..Net::default() };
        let y = build(&mut net);
        net.run(y, make(), &steps())
    };
    let error = nmse(&run(oracle), &run(make));
    assert!(error <= LIMIT, "{what}, seed {SEED}: NMSE {error:e}");
}

/// Columns that fill vectors and tasks or do not, with and without a bias.
pub fn conv_in_steps_of_several_sequences(make: Make<'_>, oracle: Make<'_>) {
    for (cols, taps, has_bias) in
        [(20, 4, true), (130, 3, false), (64, 2, true), (5, 1, true), (200, 9, false)]
    {
        compare(make, oracle, &format!("{cols} columns, {taps} taps"), |net| {
            let x = net.input("x", TOKENS, &normal(SEED, "x", TOKENS * cols));
            let weight = net.matrix("w", cols, &normal(SEED, "w", cols * taps));
            let bias = has_bias.then(|| net.matrix("b", 1, &normal(SEED, "b", cols)));
            net.graph.conv("y", x, weight, bias)
        });
    }
}

/// Scans and delta rules whose heads fill vectors or do not.
pub fn linear_attention_in_steps_of_several_sequences(make: Make<'_>, oracle: Make<'_>) {
    for (k_dim, v_dim, heads, k_heads, is_tiled, is_delta) in [
        (16, 16, 2, 2, false, true),
        (128, 128, 4, 2, true, true),
        (7, 20, 6, 3, true, true),
        (33, 50, 4, 2, false, true),
        (128, 64, 4, 1, false, false),
        (20, 33, 6, 2, false, false),
        (1, 1, 2, 1, true, false),
    ] {
        let heads = LinearHeads { heads, k_heads, is_tiled, scale: (k_dim as f32).powf(-0.5), is_delta };
        compare(make, oracle, &format!("{heads}, {k_dim} and {v_dim} columns"), |net| {
            let LinearHeads { heads: n_heads, k_heads, .. } = heads;
            let mut input = |name, cols, map: fn(f32) -> f32| {
                let values = normal(SEED, name, TOKENS * cols).into_iter().map(map).collect::<Vec<_>>();
                net.input(name, TOKENS, &values)
            };
            let [q, v] =
                [("q", k_heads * k_dim), ("v", n_heads * v_dim)].map(|(name, cols)| input(name, cols, |x| x));
            let k = input("k", k_heads * k_dim, |x| x);
            // Keys of length 1, without which the delta rule grows.
            let k = net.graph.norm("l", k, graph::NormKind::L2, k_dim, None, 1e-6);
            let mut input = |name, map: fn(f32) -> f32| {
                let values = normal(SEED, name, TOKENS * n_heads).into_iter().map(map).collect::<Vec<_>>();
                net.input(name, TOKENS, &values)
            };
            let decay = input("decay", |x| -0.2 * x.abs());
            let beta = input("beta", |x| 1.0 / (1.0 + (-x).exp()));
            let skip = (n_heads > 2).then(|| net.matrix("skip", n_heads, &normal(SEED, "skip", n_heads)));
            net.graph.op("y", Op::LinearAttention { q, k, v, decay, beta, skip, heads })
        });
    }
}

/// The state is that of the sequence alone: NaN in one does not reach another that uses the same slot later.
pub fn a_new_sequence_has_no_state(make: Make<'_>) {
    let mut net = Net::default();
    let values: Vec<f32> = (0..TOKENS).map(|i| if i < 3 { f32::NAN } else { 1.0 }).collect();
    let x = net.input("x", TOKENS, &values);
    let weight = net.matrix("w", 1, &[1.0, 1.0]);
    let c = net.graph.conv("c", x, weight, None);
    let zero = net.graph.scale("zero", c, 0.0);
    let heads = LinearHeads { heads: 1, k_heads: 1, is_tiled: false, scale: 1.0, is_delta: false };
    let (q, k, v, decay, beta, skip) = (c, c, c, zero, c, None);
    let y = net.graph.op("y", Op::LinearAttention { q, k, v, decay, beta, skip, heads });
    let run = net.run(y, make(), &[step(0..3, 0..3, Slots::default()), step(3..5, 0..2, Slots::default())]);
    assert!(run[..3].iter().all(|x| x.is_nan()), "{run:?}");
    // c is 1, then 2: S is 1, then 1 + 8.
    close(&run[3..], &[1.0, 18.0], 1e-6);
}
