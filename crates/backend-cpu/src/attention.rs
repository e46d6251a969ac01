//! Attention of some rows over their sequences' keys and values.
//!
//! Queries that share a K/V head are taken a few at a time: those of one row's heads, and of neighbouring
//! rows. Positions are taken in chunks of 512, counted from position 0; each chunk has a softmax of its own,
//! and chunks are merged in order (Milakov and Gimelshein 2018; Dao et al. 2022). A score is summed over the
//! columns of a head in order, a mean over the positions in order: a result depends neither on how the
//! prompt was split into steps, nor on who else is in the batch.
//!
//! Tried and left: a page widened once for 64 queries (14 % faster at 4096 positions, up to 10 % slower at 512).
//!
//! Scores have positions in lanes, means have columns in lanes; what a vector of keys or values is read for
//! serves all queries of a tile.

#![expect(clippy::needless_range_loop, reason = "arrays of one tile are indexed side by side")]

use std::ops::Range;

use backend::{PAGE, Span};

use crate::kv::{Store, Stored};
use crate::lanes::{LANES, Lanes, Work, exp};
use crate::pool::Tile;

/// Positions of a chunk.
const CHUNK: usize = 512;

/// Queries of a tile, at most.
const QUERIES: usize = 8;

/// What attention is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a, T> {
    pub(crate) store: &'a Store<T>,
    /// Span and position of each row.
    pub(crate) rows: &'a [(&'a Span, usize)],
    /// `[rows, heads * k_dim]`.
    pub(crate) q: &'a [f32],
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) scale: f32,
}

/// Computes a tile of the result: some rows, and the columns of the heads of one K/V head.
pub(crate) struct Attend<'a, 't, T> {
    pub(crate) heads: Heads<'a, T>,
    pub(crate) tile: Tile<'t, f32>,
}

impl<T: Stored> Work for Attend<'_, '_, T> {
    #[inline(always)]
    fn work<L: Lanes>(mut self, lanes: L) {
        let share = self.heads.heads / self.heads.kv_heads;
        let v_dim = self.tile.cols().len() / share;
        let kv_head = self.tile.cols().start / (v_dim * share);
        let mut scratch = Scratch { scores: [[0.0; CHUNK]; QUERIES], means: vec![0.0; QUERIES * v_dim] };
        let width = match L::TILE {
            6 => QUERIES,
            3 => 2,
            _ => 1,
        };
        let mut rows = self.tile.rows();
        while let Some(first) = rows.next() {
            // Rows of one sequence, and all heads of each.
            let span = self.heads.rows[first].0;
            while rows.start < rows.end && std::ptr::eq(self.heads.rows[rows.start].0, span) {
                rows.next();
            }
            let queries = first * share..rows.start * share;
            let mut next = queries.start;
            while next < queries.end {
                let left = queries.end - next;
                let group = Group { heads: &self.heads, span, kv_head, share, v_dim, first: next };
                next += match left {
                    8.. if width == 8 => group.attend::<L, 8>(lanes, &mut scratch, &mut self.tile),
                    4.. if width == 8 => group.attend::<L, 4>(lanes, &mut scratch, &mut self.tile),
                    2.. if width > 1 => group.attend::<L, 2>(lanes, &mut scratch, &mut self.tile),
                    _ => group.attend::<L, 1>(lanes, &mut scratch, &mut self.tile),
                };
            }
        }
    }
}

struct Scratch {
    /// Scores of a chunk, then `e` to their power.
    scores: [[f32; CHUNK]; QUERIES],
    /// Means of a chunk, `[queries][v_dim]`.
    means: Vec<f32>,
}

/// Queries of one sequence and K/V head, from query `first` on: number `row * share + head of the row`.
struct Group<'a, T> {
    heads: &'a Heads<'a, T>,
    span: &'a Span,
    kv_head: usize,
    share: usize,
    v_dim: usize,
    first: usize,
}

impl<T: Stored> Group<'_, T> {
    /// Computes `C` queries; returns `C`.
    #[inline(always)]
    fn attend<L: Lanes, const C: usize>(
        &self,
        lanes: L,
        scratch: &mut Scratch,
        tile: &mut Tile<'_, f32>,
    ) -> usize {
        let row = |c: usize| (self.first + c) / self.share;
        let columns = |c: usize| (self.first + c) % self.share * self.v_dim;
        let mut lens = [0; C];
        let (mut max, mut total) = ([f32::NEG_INFINITY; C], [0.0; C]);
        for c in 0..C {
            lens[c] = self.heads.rows[row(c)].1 + 1;
            tile.row(row(c))[columns(c)..][..self.v_dim].fill(0.0);
        }
        // Rows rise, so the last query has the most positions and the first the fewest.
        for first in (0..lens[C - 1]).step_by(CHUNK) {
            self.scores::<L, C>(lanes, first..lens[C - 1].min(first + CHUNK), &mut scratch.scores);
            let mut here = [0; C];
            let (mut chunk_max, mut chunk_total) = ([0.0; C], [0.0; C]);
            for c in 0..C {
                here[c] = lens[c].clamp(first, first + CHUNK) - first;
                (chunk_max[c], chunk_total[c]) = softmax(lanes, &mut scratch.scores[c], here[c]);
            }
            scratch.means.fill(0.0);
            self.mix::<L, C>(lanes, first, 0..here[0], 0, scratch);
            for c in 1..C {
                self.mix::<L, 1>(lanes, first, here[0]..here[c], c, scratch);
            }
            for c in 0..C {
                if here[c] == 0 {
                    continue;
                }
                let new_max = if max[c] > chunk_max[c] { max[c] } else { chunk_max[c] };
                let (old, new) = ((max[c] - new_max).exp(), (chunk_max[c] - new_max).exp());
                let out = &mut tile.row(row(c))[columns(c)..][..self.v_dim];
                for (y, &mean) in out.iter_mut().zip(&scratch.means[c * self.v_dim..]) {
                    *y = *y * old + mean * new;
                }
                total[c] = total[c] * old + chunk_total[c] * new;
                max[c] = new_max;
            }
        }
        for c in 0..C {
            for y in &mut tile.row(row(c))[columns(c)..][..self.v_dim] {
                *y /= total[c];
            }
        }
        C
    }

    /// The scores of the positions `positions`, from the start of a chunk, and of some beyond.
    #[inline(always)]
    fn scores<L: Lanes, const C: usize>(
        &self,
        lanes: L,
        positions: Range<usize>,
        scores: &mut [[f32; CHUNK]; QUERIES],
    ) {
        let k_dim = self.heads.q.len() / (self.heads.rows.len() * self.heads.heads);
        let mut q: [&[f32]; C] = [&[]; C];
        for c in 0..C {
            let (row, head) = ((self.first + c) / self.share, (self.first + c) % self.share);
            let at = row * self.heads.heads + self.kv_head * self.share + head;
            q[c] = &self.heads.q[at * k_dim..][..k_dim];
        }
        let scale = lanes.splat(self.heads.scale);
        for position in positions.clone().step_by(PAGE) {
            let (keys, _) = self.heads.store.page(self.span, self.kv_head, position);
            // What comes next is asked for a line with each line: keys, and after the last of them values.
            let ahead = match position + PAGE {
                next if next < positions.end => {
                    bytes_of(self.heads.store.page(self.span, self.kv_head, next).0.as_flattened())
                }
                _ => bytes_of(self.heads.store.page(self.span, self.kv_head, positions.start).1),
            };
            let mut sums = [[lanes.splat(0.0); 2]; C];
            for (d, keys) in keys.iter().enumerate() {
                lanes.prefetch(ahead.wrapping_add(d * size_of::<[T; PAGE]>()));
                let (halves, _) = keys.as_chunks::<LANES>();
                let keys = [T::widen(lanes, &halves[0]), T::widen(lanes, &halves[1])];
                for c in 0..C {
                    let q = lanes.splat(q[c][d]);
                    sums[c][0] = lanes.mul_add(keys[0], q, sums[c][0]);
                    sums[c][1] = lanes.mul_add(keys[1], q, sums[c][1]);
                }
            }
            for c in 0..C {
                let to = scores[c][position - positions.start..].as_chunks_mut::<LANES>().0;
                lanes.put(lanes.mul(sums[c][0], scale), &mut to[0]);
                lanes.put(lanes.mul(sums[c][1], scale), &mut to[1]);
            }
        }
    }

    /// Adds the values of the positions `part` of the chunk from `first` on, times their weights, to the
    /// means of `C` queries from `query` on.
    #[inline(always)]
    fn mix<L: Lanes, const C: usize>(
        &self,
        lanes: L,
        first: usize,
        part: Range<usize>,
        query: usize,
        scratch: &mut Scratch,
    ) {
        let dim = self.v_dim;
        let mut next = part.start;
        while next < part.end {
            let (_, values) = self.heads.store.page(self.span, self.kv_head, first + next);
            let place = next % PAGE;
            let len = (PAGE - place).min(part.end - next);
            let values = &values[place * dim..][..len * dim];
            let ahead = match next + len {
                next if next < part.end => {
                    bytes_of(self.heads.store.page(self.span, self.kv_head, first + next).1)
                }
                _ => bytes_of(values),
            };
            let mut weights: [&[f32]; C] = [&[]; C];
            for c in 0..C {
                weights[c] = &scratch.scores[query + c][next..][..len];
            }
            let means = &mut scratch.means[query * dim..][..C * dim];
            let mut col = 0;
            while col + 2 * LANES <= dim {
                mix_columns::<L, T, 2, C>(lanes, values, ahead, dim, col, weights, means);
                col += 2 * LANES;
            }
            if col + LANES <= dim {
                mix_columns::<L, T, 1, C>(lanes, values, ahead, dim, col, weights, means);
                col += LANES;
            }
            if col < dim {
                mix_rest::<L, T, C>(lanes, values, dim, col, weights, means);
            }
            next += len;
        }
    }
}

fn bytes_of<T>(numbers: &[T]) -> *const u8 {
    numbers.as_ptr().cast()
}

/// Of rows of `dim` values the `16 * R` columns from `col` on; rows that lie as these do from `ahead` on are
/// asked for.
#[inline(always)]
fn mix_columns<L: Lanes, T: Stored, const R: usize, const C: usize>(
    lanes: L,
    values: &[T],
    ahead: *const u8,
    dim: usize,
    col: usize,
    weights: [&[f32]; C],
    means: &mut [f32],
) {
    let mut sums = [[lanes.splat(0.0); R]; C];
    for c in 0..C {
        for r in 0..R {
            sums[c][r] = lanes.floats(sixteen(&means[c * dim + col + r * LANES..]));
        }
    }
    for (j, row) in values.chunks_exact(dim).enumerate() {
        lanes.prefetch(ahead.wrapping_add((j * dim + col) * size_of::<T>()));
        let mut value = [lanes.splat(0.0); R];
        for r in 0..R {
            value[r] = T::widen(lanes, sixteen(&row[col + r * LANES..]));
        }
        for c in 0..C {
            let weight = lanes.splat(weights[c][j]);
            for r in 0..R {
                sums[c][r] = lanes.mul_add(weight, value[r], sums[c][r]);
            }
        }
    }
    for c in 0..C {
        for r in 0..R {
            let to = &mut means[c * dim + col + r * LANES..][..LANES];
            lanes.put(sums[c][r], to.try_into().expect("sixteen"));
        }
    }
}

/// The columns from `col` on, fewer than 16.
#[inline(always)]
fn mix_rest<L: Lanes, T: Stored, const C: usize>(
    lanes: L,
    values: &[T],
    dim: usize,
    col: usize,
    weights: [&[f32]; C],
    means: &mut [f32],
) {
    for c in 0..C {
        let mean = &mut means[c * dim..][..dim][col..];
        let mut sums = [0.0; LANES];
        sums[..mean.len()].copy_from_slice(mean);
        let mut sum = lanes.floats(&sums);
        for (row, &weight) in values.chunks_exact(dim).zip(weights[c]) {
            let mut value = [T::zeroed(); LANES];
            value[..dim - col].copy_from_slice(&row[col..]);
            sum = lanes.mul_add(lanes.splat(weight), T::widen(lanes, &value), sum);
        }
        lanes.put(sum, &mut sums);
        mean.copy_from_slice(&sums[..mean.len()]);
    }
}

#[inline(always)]
fn sixteen<T>(numbers: &[T]) -> &[T; LANES] {
    numbers[..LANES].try_into().expect("sixteen")
}

/// Turns the first `len` scores into `e` to the power of what they are less than the largest; returns the
/// largest and the sum. Scores up to the next whole vector become 0.
#[inline(always)]
fn softmax<L: Lanes>(lanes: L, scores: &mut [f32; CHUNK], len: usize) -> (f32, f32) {
    let whole = len.next_multiple_of(LANES);
    scores[len..whole].fill(f32::NEG_INFINITY);
    let vectors = scores[..whole].as_chunks_mut::<LANES>().0;
    let mut max = lanes.splat(f32::NEG_INFINITY);
    for vector in &*vectors {
        max = lanes.max(max, lanes.floats(vector));
    }
    let mut numbers = [0.0; LANES];
    lanes.put(max, &mut numbers);
    let mut max = numbers[0];
    for &number in &numbers {
        max = if number > max { number } else { max };
    }
    let minus_max = lanes.splat(-max);
    let mut sum = lanes.splat(0.0);
    for vector in vectors {
        let power = exp(lanes, lanes.add(lanes.floats(vector), minus_max));
        lanes.put(power, vector);
        sum = lanes.add(sum, power);
    }
    lanes.put(sum, &mut numbers);
    let mut sum = 0.0;
    for number in numbers {
        sum += number;
    }
    (max, sum)
}
