//! Operations of encoders: positions, pooling, ALiBi.

use backend::{KV_BLOCK, KvFormat, Row, Sequence, Step, Taps};
use graph::{Mask, Pool, Score, Store};

use super::Make;
use super::net::{Net, close, sequence, store};

/// Two sequences, the second from position 3 on.
pub fn embed_looks_up_positions(make: Make<'_>) {
    let mut net = Net::default();
    let table = net.matrix("table", 5, &[0.0, 10.0, 1.0, 11.0, 2.0, 12.0, 3.0, 13.0, 4.0, 14.0]);
    let x = net.graph.embed_positions("x", table);
    let mut program = net.compile(x, make()).expect("a good graph");
    let sequences = vec![Sequence::uniform(0, 2, 0, []), Sequence::uniform(3, 2, 0, [])];
    let step = Step::new(Row::logits(vec![7; 4], 0..4), sequences).expect("a good step");
    let found = program.run(&step).expect("a good step").values().to_vec();
    close(&found, &[0.0, 10.0, 1.0, 11.0, 3.0, 13.0, 4.0, 14.0], 0.0);
    // The table has no row 5.
    let sequences = vec![Sequence::uniform(3, 3, 0, [])];
    let step = Step::new(Row::logits(vec![7; 3], 0..3), sequences).expect("a good step");
    assert!(program.run(&step).is_err(), "a position outside the table");
}

/// Sequences of 3, 1 and 2 rows; an output row stands for its sequence, whichever row it is.
pub fn pool_represents_sequences(make: Make<'_>) {
    let values = [1.0, 10.0, 2.0, 20.0, 6.0, 60.0, 5.0, 50.0, 7.0, 70.0, 10.0, 100.0];
    for (pool, expected) in
        [(Pool::Mean, [3.0, 30.0, 5.0, 50.0, 8.5, 85.0]), (Pool::First, [1.0, 10.0, 5.0, 50.0, 7.0, 70.0])]
    {
        let mut net = Net::default();
        let x = net.input("x", 6, &values);
        let y = net.graph.pool("y", x, pool);
        let (_, mut loaded) = net.load(y, make()).expect("a good graph");
        let bucket = backend::Bucket { rows: 8, outputs: 4 };
        let mut program = loaded.compile(bucket, Taps::None).expect("a good graph");
        for outputs in [[2, 3, 5], [0, 3, 4]] {
            let sequences = [3, 1, 2].map(|len| Sequence::uniform(0, len, 0, [])).to_vec();
            let step = Step::new(Row::logits(0..6, outputs), sequences).expect("a good step");
            close(program.run(&step).expect("a good step").values(), &expected, 1e-6);
        }
    }
}

/// Zero queries: weights follow from distances. With 3 heads and a largest bias of 8 the slopes are 2^-4, 2^-8 and 2^-2
/// (Press et al. 2022).
pub fn attention_with_alibi(make: Make<'_>) {
    for (mask, steps) in [
        (Mask::Causal, vec![sequence(0, 3)]),
        (Mask::Causal, vec![sequence(0, 1), sequence(1, 1), sequence(2, 1)]),
        (Mask::Full, vec![sequence(0, 3)]),
    ] {
        for dim in [1, 32] {
            let mut net = Net::with_kv(1, KvFormat::F32);
            let q = net.input("q", 3, &vec![0.0; 9 * dim]);
            let k = net.input("k", 3, &vec![1.0; 3 * dim]);
            let row = |v: f32| vec![v; dim];
            let v = net.input("v", 3, &[row(3.0), row(5.0), row(11.0)].concat());
            let score = Score { alibi: Some(8.0), ..Score::from(1.0) };
            let y = net.attention("y", [q, k, v], Store { mask, ..store(1, dim, dim) }, 3, score);
            let mut expected = Vec::new();
            for row in 0..3usize {
                for slope in [0.0625f64, 0.003_906_25, 0.25] {
                    let seen = if mask == Mask::Full { 0..3 } else { 0..row + 1 };
                    let weight = |p: usize| (-slope * p.abs_diff(row) as f64).exp();
                    let total: f64 = seen.clone().map(weight).sum();
                    let mean = seen.map(|p| weight(p) * [3.0, 5.0, 11.0][p]).sum::<f64>() / total;
                    expected.extend(vec![mean as f32; dim]);
                }
            }
            close(&net.run(y, make(), &steps), &expected, 1e-5);
        }
    }
}

/// Rows that see later ones cannot be computed in two steps.
pub fn later_rows_need_one_step(make: Make<'_>) {
    for mask in [Mask::Full, Mask::Around(4)] {
        let mut net = Net::with_kv(2, KvFormat::F32);
        let x = net.input("x", KV_BLOCK, &[1.0; KV_BLOCK]);
        let y = net.attention("y", [x, x, x], Store { mask, ..store(1, 1, 1) }, 1, 1.0);
        let mut program = net.compile(y, make()).expect("a good graph");
        program.run(&sequence(0, 3)).expect("all rows of the sequence");
        let error = program.run(&sequence(3, 1)).expect_err("rows after others").to_string();
        assert!(error.contains("in one step"), "{error}");
    }
}
