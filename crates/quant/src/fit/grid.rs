//! Grid quantisation, `y = a g`: a scale per group, and a vector `g` of a codebook for each 4 or 8 values.
//!
//! With the scale `a`, entry `e` of the codebook adds `a² B - 2 a A` to the squared error, `A = Σ w x g` and
//! `B = Σ w g²`. As a function of `t = a / 2`, the best entry is thus on the upper envelope of the lines `A - t B`. The envelope
//! of each vector is computed once ([`Envelope`]); it has about ten pieces. Every search of scales then finds the best entries
//! without the codebook.

use std::sync::LazyLock;

use super::{F16Scale, Unit};
use crate::F16Le;
use crate::grid_block::GridBlock;

/// Values of all entries, `[K][entries]`, computed on first use.
pub(crate) type Codebook<const K: usize> = LazyLock<[Vec<f32>; K]>;

/// The magnitudes of a grid.
pub(crate) fn unsigned<const K: usize>(grid: &[u64], quants: [i8; 16]) -> [Vec<f32>; K] {
    values(grid.iter().map(|entry| entry.to_le_bytes()), quants)
}

pub(crate) fn values<const K: usize>(
    entries: impl Iterator<Item = [u8; 8]> + Clone,
    quants: [i8; 16],
) -> [Vec<f32>; K] {
    let value = |code: u8| f32::from(quants[usize::from(code)]);
    std::array::from_fn(|k| entries.clone().map(|codes| value(codes[k])).collect())
}

/// How the signs of eight values are stored.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Signs {
    /// The codebook has signed values.
    None,
    Any,
    /// An even number of them is negative.
    Even,
}

/// A quantised block. Only the first elements of arrays are used, as many as the format has.
pub(crate) struct Found {
    pub(crate) d: F16Le,
    pub(crate) scales: [u8; 16],
    pub(crate) books: [usize; 16],
    pub(crate) entries: [u16; 64],
    pub(crate) signs: [u8; 32],
}

/// A range of scales in which an entry is the best.
#[derive(Clone, Copy)]
struct Piece {
    /// Half the least scale of the range.
    from: f32,
    entry: u16,
    a: f32,
    b: f32,
}

/// The best entry for a vector by scale: pieces with rising `from` and falling `b`.
struct Envelope(Vec<Piece>);

#[derive(Default)]
struct Lines {
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Lines {
    /// Computes the lines for the values `x` with weights `w`.
    fn set<const K: usize>(&mut self, book: &[Vec<f32>; K], x: &[f32; K], w: &[f32; K]) {
        let entries = book[0].len();
        self.a.resize(entries, 0.0);
        self.b.resize(entries, 0.0);
        let blocks = self.a.as_chunks_mut::<BLOCK>().0.iter_mut().zip(self.b.as_chunks_mut::<BLOCK>().0);
        for (block, (a, b)) in blocks.enumerate() {
            (*a, *b) = ([0.0; BLOCK], [0.0; BLOCK]);
            for k in 0..K {
                let (values, x, w) = (&book[k].as_chunks::<BLOCK>().0[block], x[k], w[k]);
                for i in 0..BLOCK {
                    let weighted = w * values[i];
                    a[i] += weighted * x;
                    b[i] += weighted * values[i];
                }
            }
        }
    }

    fn piece(&self, from: f32, entry: usize) -> Piece {
        Piece { from, entry: entry as u16, a: self.a[entry], b: self.b[entry] }
    }

    /// The entry with the least key and that key; `None` if no key is finite. `keys` computes the keys of a block.
    #[inline(always)]
    fn least(&self, keys: impl Fn(&Block, &Block, &mut Block)) -> Option<(f32, usize)> {
        let blocks = self.a.as_chunks().0.iter().zip(self.b.as_chunks().0);
        let mut least = (f32::INFINITY, 0);
        for (number, (a, b)) in blocks.enumerate() {
            let mut all = [0.0; BLOCK];
            keys(a, b, &mut all);
            // Halves are compared as vectors.
            let mut half = all;
            for len in [32, 16, 8, 4, 2, 1] {
                let (low, high) = half.split_at_mut(len);
                for (low, high) in low.iter_mut().zip(high) {
                    *low = if *high < *low { *high } else { *low };
                }
            }
            if half[0] < least.0 {
                let at = all.iter().position(|&key| key == half[0]).unwrap_or(0);
                least = (half[0], number * BLOCK + at);
            }
        }
        least.0.is_finite().then_some(least)
    }

    /// The entry with the largest `A - t B`.
    fn best(&self, t: f32) -> usize {
        let best = self.least(|a, b, keys| {
            for i in 0..BLOCK {
                keys[i] = t * b[i] - a[i];
            }
        });
        best.map_or(0, |(_, entry)| entry)
    }

    /// The first line that crosses that of `last`, and where.
    fn crossing(&self, last: Piece) -> Option<(f32, usize)> {
        self.least(|a, b, keys| {
            for i in 0..BLOCK {
                keys[i] = (last.a - a[i]) / (last.b - b[i]);
            }
            for i in 0..BLOCK {
                keys[i] = if b[i] < last.b { keys[i] } else { f32::INFINITY };
            }
        })
    }

    /// The upper envelope from `from` on. Gift wrapping: the next piece is that of the line which crosses first. Far above
    /// `from`, where only groups much smaller than others of their block are, the entry with the least `b` ends it.
    fn envelope(&self, from: f32) -> Envelope {
        let mut pieces = vec![self.piece(from, self.best(from))];
        while let Some(&last) = pieces.last() {
            let Some((at, next)) = self.crossing(last) else { break };
            let at = at.max(last.from);
            if at > FAR * from {
                pieces.push(self.piece(at, self.best(1e20)));
                break;
            }
            pieces.push(self.piece(at, next));
        }
        Envelope(pieces)
    }
}

/// Entries that are searched at a time; codebooks have a multiple of it.
const BLOCK: usize = 64;

type Block = [f32; BLOCK];

/// The ratio of the largest to the smallest scale for which envelopes are exact.
const FAR: f32 = 6.0;

impl Envelope {
    /// The best entry at half the scale.
    fn at(&self, half: f32) -> &Piece {
        let after = self.0.iter().skip(1).position(|piece| piece.from > half);
        &self.0[after.unwrap_or(self.0.len() - 1)]
    }
}

/// The envelopes of a group's vectors with one codebook.
type Variant = Vec<Envelope>;

/// Sums of `a` and `b` of the best entries at a scale.
fn sums(variant: &Variant, scale: f32) -> (f32, f32) {
    variant
        .iter()
        .map(|envelope| envelope.at(scale / 2.0))
        .fold((0.0, 0.0), |sums, piece| (sums.0 + piece.a, sums.1 + piece.b))
}

/// How much the error exceeds that of `y = 0`, and the variant that achieves it.
fn error(variants: &[Variant], scale: f32) -> (f32, usize) {
    let mut least = (f32::INFINITY, 0);
    for (at, variant) in variants.iter().enumerate() {
        let (a, b) = sums(variant, scale);
        let error = scale * (scale * b - 2.0 * a);
        if error < least.0 {
            least = (error, at);
        }
    }
    least
}

/// The scale with the least error: that of least squares in one of the ranges with the same entries.
fn best_scale(variants: &[Variant]) -> f32 {
    let (mut most, mut best) = (0.0, 0.0);
    for variant in variants {
        for piece in variant.iter().flat_map(|envelope| &envelope.0) {
            let (a, b) = sums(variant, 2.0 * piece.from);
            if a > 0.0 && a * a > most * b {
                (most, best) = (a * a / b, a / b);
            }
        }
    }
    best
}

/// Quantises a block with one of `books` per group; scales are up to `max_scale`.
pub(crate) fn search<B: GridBlock, const K: usize>(
    books: &[&Codebook<K>],
    signs: Signs,
    max_scale: u8,
    x: &[f32; 256],
    weights: &[f32; 256],
    unit: Unit,
) -> Found {
    let (mut x, mut found_signs) = (*x, [0; 32]);
    if signs != Signs::None {
        for ((x, w), found) in x.as_chunks_mut().0.iter_mut().zip(weights.as_chunks().0).zip(&mut found_signs)
        {
            *found = take_signs(x, w, signs);
        }
    }
    let largest = B::QUANTS.into_iter().max().map_or(1.0, f32::from);
    let groups = x.chunks_exact(B::GROUP).zip(weights.chunks_exact(B::GROUP));
    let mut lines = Lines::default();
    let groups: Vec<Vec<Variant>> = groups
        .map(|(x, w)| {
            let most = x.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            // Below half of it, the largest value is clipped to less than half.
            let from = 0.5 * most / largest / 2.0;
            let vectors = || x.as_chunks().0.iter().zip(w.as_chunks().0);
            let variant = |book: &&Codebook<K>| {
                let mut envelope = |(x, w)| {
                    lines.set(book, x, w);
                    lines.envelope(from)
                };
                vectors().map(&mut envelope).collect()
            };
            books.iter().map(variant).collect()
        })
        .collect();
    let (d, scales) = fit_scales(&groups, B::UNIT, max_scale, unit);
    let mut found =
        Found { d: d.stored, scales: [0; 16], books: [0; 16], entries: [0; 64], signs: found_signs };
    let vectors_per_group = B::GROUP / K;
    for (g, (variants, scale)) in groups.iter().zip(scales).enumerate() {
        let group_scale = d.value * B::UNIT * f32::from(2 * scale + 1);
        let book = error(variants, group_scale).1;
        (found.scales[g], found.books[g]) = (scale, book);
        for (entry, envelope) in found.entries[g * vectors_per_group..].iter_mut().zip(&variants[book]) {
            *entry = envelope.at(group_scale / 2.0).entry;
        }
    }
    found
}

/// Makes eight values magnitudes and returns their signs. Where they must be even, the value whose sign costs least is negated.
fn take_signs(x: &mut [f32; 8], w: &[f32; 8], signs: Signs) -> u8 {
    let mut found = 0u8;
    for (i, x) in x.iter_mut().enumerate() {
        if *x < 0.0 {
            found |= 1 << i;
            *x = -*x;
        }
    }
    if signs == Signs::Even && found.count_ones() % 2 == 1 {
        let cost = |i: usize| w[i] * x[i] * x[i];
        let least = (1..8).fold(0, |least, i| if cost(i) < cost(least) { i } else { least });
        found ^= 1 << least;
        x[least] = -x[least];
    }
    found
}

/// The F16 scale and each group's integer scale.
fn fit_scales(groups: &[Vec<Variant>], factor: f32, max_scale: u8, unit: Unit) -> (F16Scale, [u8; 16]) {
    let mut ideal = [0.0; 16];
    for (ideal, variants) in ideal.iter_mut().zip(groups) {
        *ideal = best_scale(variants) / factor;
    }
    let top = ideal.iter().fold(0.0, |most: f32, &scale| most.max(scale));
    let most = f32::from(2 * max_scale + 1);
    // Error and scales for `d`, and the `d` with the least error for the same entries.
    let choose = |d: F16Scale| {
        let (mut total, mut scales, mut xs, mut ss) = (0.0, [0; 16], 0.0, 0.0);
        for ((variants, ideal), chosen) in groups.iter().zip(ideal).zip(&mut scales) {
            let nearest = (ideal * super::inverse(d.value) - 1.0) / 2.0;
            let nearest = nearest.round().clamp(0.0, max_scale.into()) as i32;
            let mut least = (f32::INFINITY, 0, 0);
            for step in -1..=1 {
                let scale = (nearest + step).clamp(0, max_scale.into()) as u8;
                let (error, variant) = error(variants, d.value * factor * f32::from(2 * scale + 1));
                if error < least.0 {
                    least = (error, scale, variant);
                }
            }
            *chosen = least.1;
            let times = factor * f32::from(2 * least.1 + 1);
            let (a, b) = sums(&variants[least.2], d.value * times);
            total += least.0;
            xs += times * a;
            ss += times * times * b;
        }
        (total, scales, unit.f16_scale(if ss > 0.0 && xs > 0.0 { xs / ss } else { 0.0 }))
    };
    let mut best = choose(unit.f16_scale(0.0));
    let mut best_d = unit.f16_scale(0.0);
    for guess in 0..18 {
        // The largest scale becomes `most`, or a little more or less; then least squares refines the best.
        let guessed = top / (most * (1.09 - 0.03 * guess as f32));
        let d = if guess < 16 { unit.f16_scale(guessed) } else { best.2 };
        let found = choose(d);
        if found.0 < best.0 {
            (best, best_d) = (found, d);
        }
    }
    (best_d, best.1)
}
