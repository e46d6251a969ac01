//! Tokens that a device draws, beside [`is_drawn`](crate::is_drawn). A backend may return candidates or logits instead.

use backend::{
    Draw, Filter, Input, MAX_CANDIDATES, Output, Outputs, Penalties, Program, Row, Sequence, Step,
};

use super::Make;
use super::net::Net;

/// Few decisions of a kind, in an order that nothing else depends on.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: usize) -> usize {
        // Knuth's linear congruential generator (MMIX).
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Up to `n` ids, in order, a few of them beyond `cols` and some twice.
    fn ids(&mut self, n: usize, cols: usize) -> Vec<u32> {
        let n = self.below(n + 1);
        let mut ids: Vec<u32> = (0..n).map(|_| self.below(cols.min(20) + 2) as u32).collect();
        ids.extend((0..n / 2).map(|_| self.below(cols) as u32));
        ids.sort_unstable();
        ids
    }

    fn draw(&mut self, cols: usize) -> Draw {
        let bias = [f32::NEG_INFINITY, -1.5, 0.25, 0.25, 2.0, 7.0, f32::MIN, f32::MAX];
        let biases = if self.below(2) == 0 { self.ids(8, cols) } else { Vec::new() };
        let biases = biases.into_iter().map(|id| (id, self.one(&bias))).collect();
        let penalties = (self.below(2) == 0).then(|| {
            let mut ids = self.ids(12, cols);
            ids.dedup();
            Penalties {
                repeat: self.one(&[1.0, 1.3, 1.7, 1e6, 0.1]),
                frequency: self.one(&[0.0, 0.3, 0.5, -9.0]),
                presence: self.one(&[0.0, 0.1, 1.0, 1e6]),
                counts: ids.into_iter().map(|id| (id, 1 + self.below(5) as u32)).collect(),
            }
        });
        let filters = (0..self.one(&[0, 1, 3, 3, 6])).map(|_| match self.below(3) {
            0 => Filter::TopP(self.one(&[0.0, 0.3, 0.9, 0.95, 0.999_999, 1.0])),
            1 => Filter::MinP(self.one(&[0.0, 1e-9, 0.05, 0.1, 1.0])),
            _ => Filter::Temperature(self.one(&[0.6, 0.8, 1.5, 3.0, 1e-6, 1e-45, 1e30, f32::MAX])),
        });
        let filters = filters.collect();
        let u = match self.below(8) {
            0 => 0.0,
            1 => 0.999_999,
            _ => (self.below(1 << 20) as f64 + 0.5) / f64::from(1 << 20),
        };
        Draw { u, biases, penalties, top_k: self.one(&[1, 2, 5, 31, 32, 33, 40, 63, 64]), filters }
    }

    /// Of any number of tokens.
    fn draw_of_many(&mut self, cols: usize) -> Draw {
        let draw = self.draw(cols);
        let u = if self.below(8) == 0 { 1.0 - f64::EPSILON / 2.0 } else { draw.u };
        let most = [draw.top_k, 0, 0, 65, 200, 1024, 1025, 20_000, cols, usize::MAX];
        Draw { u, top_k: self.one(&most), ..draw }
    }
}

/// Rows with many and few possible tokens, ties, and logits that are none.
fn rows(cols: usize) -> Vec<Vec<f32>> {
    const NONE: f32 = f32::NEG_INFINITY;
    let spread: Vec<f32> =
        (0..cols as u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 8) as f32 / 2e6 - 4.0).collect();
    let ties: Vec<f32> = spread.iter().map(|logit| logit.floor()).collect();
    let mut some = ties.clone();
    some.iter_mut().step_by(3).for_each(|logit| *logit = NONE);
    some[cols / 2] = -0.0;
    let mut few = vec![NONE; cols];
    for (i, logit) in [(0, 1.0), (cols / 2, 0.5), (cols - 1, -0.0), (cols / 3, 0.0)] {
        few[i] = logit;
    }
    // Temperatures make these equal.
    let close = spread.iter().map(|logit| logit * 1e-30).collect();
    let mut all = vec![close, spread, ties, some, few, vec![NONE; cols], vec![0.5; cols]];
    for broken in [f32::NAN, f32::INFINITY] {
        all.push(vec![1.0; cols]);
        // Where biases and penalties would hide it.
        all.last_mut().expect("just added")[cols.min(5) - 1] = broken;
    }
    all
}

/// Logits of a model: many tokens with little probability, and few with much.
fn bell(cols: usize) -> Vec<f32> {
    let logit = |i: u32| {
        let part = |k: u32| (i.wrapping_add(k).wrapping_mul(0x9e37_79b1).rotate_left(k) >> 8) as f32;
        (0..6).map(|k| part(7 * k)).sum::<f32>() / 4e6 - 12.0
    };
    let mut all: Vec<f32> = (0..cols as u32).map(logit).collect();
    for (i, best) in [9.5, 8.25, 8.25, 7.0].into_iter().enumerate() {
        all[(i * cols / 4 + 1) % cols] = best;
    }
    all
}

/// Numbers of all sizes.
fn extremes(cols: usize) -> Vec<f32> {
    let of = [f32::MIN, -1e30, -800.0, -700.0, -1.0, -1e-30, -1e-40, -0.0, 0.0, 1e-45, 1e-6, 1.0, 2.0, 40.0];
    let mut all: Vec<f32> = (0..cols).map(|i| of[i * 11 % of.len()]).collect();
    all[cols / 2] = 700.0;
    all
}

/// Runs a step of all rows, and compares what it gives.
fn check(program: &mut dyn Program, rows: &[Vec<f32>], draws: Vec<Option<Draw>>, what: &str) {
    let step_rows = (0..).zip(&draws).map(|(token, draw)| Row {
        input: Input::Token(token),
        output: draw.clone().map_or(Output::Greedy, |draw| Output::Draw(draw.into())),
    });
    let step = Step::new(step_rows.collect(), vec![Sequence::uniform(0, rows.len(), 0, [])]);
    let step = step.expect("a good step");
    let found: Outputs<'_> = program.run(&step).expect("a good step");
    for (i, (row, draw)) in rows.iter().zip(draws).enumerate() {
        match (found.logits(i), found.candidates(i)) {
            (Some(logits), _) => {
                let bits = |row: &[f32]| row.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(logits), bits(row), "{what}, row {i}: logits as they are");
            }
            (None, Some(candidates)) => assert_eq!(candidates, crate::best(row, MAX_CANDIDATES), "{what}"),
            (None, None) => {
                let token = found.token(i);
                let is_right = match &draw {
                    Some(draw) => crate::is_drawn(token, row, draw, i as u32),
                    None => token == crate::best(row, 1).first().map(|(id, _)| *id),
                };
                assert!(is_right, "{what}, row {i}: {token:?} of {draw:?}");
            }
        }
    }
}

/// Several rows per step with different draws, and greedy ones between them, in vocabularies of few tokens and of several parts.
pub fn draws_give_the_tokens_of_their_definition(make: Make<'_>) {
    for (cols, rounds) in [(1, 4), (5, 20), (64, 40), (65, 40), (300, 60), (4097, 6), (40_003, 6)] {
        let rows = rows(cols);
        let mut net = Net::default();
        let x = net.input("x", rows.len(), &rows.concat());
        let mut program = net.compile(x, make()).expect("a good graph");
        let mut choices = Choices(cols as u64);
        for round in 0..rounds {
            let is_adjusted = round % 3 > 0;
            // In some rounds all rows choose the largest logit, more than once in each vocabulary.
            let is_largest = round == 3 || round % 4 == 1;
            let draws = rows.iter().map(|_| {
                let mut draw = Some(choices.draw(cols)).filter(|_| choices.below(6) > 0)?;
                if is_largest {
                    draw.top_k = 1;
                }
                // Devices may find the largest logit after a few biases otherwise than after penalties.
                if round % 8 == 1 {
                    draw.penalties = None;
                }
                let plain = Draw { biases: [].into(), penalties: None, ..draw.clone() };
                Some(if is_adjusted { draw } else { plain })
            });
            let draws = draws.collect();
            check(&mut *program, &rows, draws, &format!("{cols} columns, round {round}"));
        }
    }
}

/// From all tokens or many of the best, in some rows of a step, in vocabularies of few tokens and of more than a block has threads.
pub fn draws_of_the_whole_vocabulary(make: Make<'_>) {
    for (cols, rounds) in
        [(1, 6), (2, 20), (63, 30), (64, 30), (65, 30), (1000, 20), (1025, 12), (32_000, 4), (140_003, 1)]
    {
        let mut rows = rows(cols);
        rows.extend([bell(cols), extremes(cols), vec![f32::MAX; cols]]);
        let mut net = Net::default();
        let x = net.input("x", rows.len(), &rows.concat());
        let mut program = net.compile(x, make()).expect("a good graph");
        let mut choices = Choices(cols as u64 + 1);
        for round in 0..rounds {
            let is_adjusted = round % 3 > 0;
            let draws = rows.iter().map(|_| {
                let draw = Some(choices.draw_of_many(cols)).filter(|_| choices.below(6) > 0)?;
                let plain = Draw { biases: [].into(), penalties: None, ..draw.clone() };
                Some(if is_adjusted { draw } else { plain })
            });
            let draws = draws.collect();
            check(&mut *program, &rows, draws, &format!("{cols} columns, round {round}"));
        }
    }
}

/// As many biases as a draw can have, in one row and in more rows than a device may have room for.
pub fn draws_with_many_biases(make: Make<'_>) {
    const COLS: usize = 1500;
    let row: Vec<f32> = (0..COLS as u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 8) as f32 / 2e6).collect();
    let rows = vec![row; 10];
    let mut net = Net::default();
    let x = net.input("x", rows.len(), &rows.concat());
    let mut program = net.compile(x, make()).expect("a good graph");
    let most = Draw::MAX_ENTRIES as u32;
    for (n, biases, top_k) in [(1, most, 20), (10, most, 20), (1, most, 1), (1, 17, 1), (1, 16, 1)] {
        let draw = |row: u32| {
            let biases = (0..biases).map(|id| (id + row, -0.01 * id as f32)).collect();
            Draw { u: 0.4, biases, penalties: None, top_k, filters: [Filter::Temperature(0.7)].into() }
        };
        let draws = (0..10).map(|row| (row < n).then(|| draw(row))).collect();
        check(&mut *program, &rows, draws, &format!("{n} rows with {biases} biases, {top_k} candidates"));
    }
}
