//! Attention of some rows over their sequences' keys and values.
//!
//! Queries that share a K/V head are taken a few at a time: those of one row's heads, and of neighbouring
//! rows. Positions are taken in chunks of 512, counted from position 0; each chunk has a softmax of its own,
//! and chunks are merged in order (Milakov and Gimelshein 2018; Dao et al. 2022). A score is summed over the
//! columns of a head in order, a mean over the positions in order: a result depends neither on how the
//! prompt was split into steps, nor on who else is in the batch.
//!
//! With a window, a row's first chunk begins at the first position that it sees, and the same vectors of scores are
//! summed as without: those before that position count as 0, and neither keys nor values before it are read. Pages
//! that no query of a task sees may have been given back.
//!
//! Scores have positions in lanes, means have columns in lanes; what a vector of keys or values is read for
//! serves all queries of a tile. Where a task has several tiles, each page is converted to f32 once for all.

#![expect(clippy::needless_range_loop, reason = "arrays of one tile are indexed side by side")]

use std::cell::Cell;
use std::ops::Range;

use backend::{BlockTable, PAGE, Sequence};
use bytemuck::Zeroable;
use graph::Group;

use crate::kv::{Store, Stored};
use crate::lanes::{LANES, Lanes, Work, exp};
use crate::memory::Line;
use crate::pool::Tile;

/// Positions of a chunk.
const CHUNK: usize = 512;

/// Queries that pages are converted for together: their scores fill a part of the second-level cache.
pub(crate) const TOGETHER: usize = 64;

thread_local! {
    /// Kept from task to task: to clear it for each would take a tenth of the time of a short prompt.
    static SCRATCH: Cell<Scratch> = Cell::default();
}

/// What attention is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a, T> {
    pub(crate) store: &'a Store<T>,
    /// The store's group, and its index.
    pub(crate) group: (Group, usize),
    /// Sequence and position of each row.
    pub(crate) rows: &'a [(&'a Sequence, usize)],
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
        let (group, index) = self.heads.group;
        let mut scratch = SCRATCH.take();
        let mut rows = self.tile.rows();
        while let Some(first) = rows.next() {
            // Rows of one sequence, and all heads of each.
            let sequence = self.heads.rows[first].0;
            while rows.start < rows.end && std::ptr::eq(self.heads.rows[rows.start].0, sequence) {
                rows.next();
            }
            let queries = first * share..rows.start * share;
            for first in queries.clone().step_by(TOGETHER) {
                let numbers = first..queries.end.min(first + TOGETHER);
                let mut queries = [Query::default(); TOGETHER];
                for (query, number) in queries.iter_mut().zip(numbers.clone()) {
                    let (row, head) = (number / share, kv_head * share + number % share);
                    let position = self.heads.rows[row].1;
                    *query = Query { row, head, first: group.first_visible(position), end: position + 1 };
                }
                let queries = &queries[..numbers.len()];
                let table = &sequence.tables[index];
                let queries = Queries { heads: &self.heads, table, kv_head, v_dim, queries };
                queries.attend(lanes, &mut scratch, &mut self.tile);
            }
        }
        SCRATCH.set(scratch);
    }
}

/// Scores of a query in a chunk, then `e` to their power.
#[derive(Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Scores([f32; CHUNK]);

#[derive(Default)]
struct Scratch {
    /// By query.
    scores: Vec<Scores>,
    /// Means of a chunk, `[queries][v_dim]`.
    means: Vec<Line>,
    /// A page, converted to f32.
    page: Vec<Line>,
}

/// A page of keys or of values.
struct Page<'a, N> {
    numbers: &'a [N],
    /// Its first position, in the chunk that begins at `chunk`.
    start: usize,
    chunk: usize,
    /// What is to be asked for while it is read.
    ahead: Option<*const u8>,
}

/// A query, and the positions it sees: from `first` up to but not including `end`.
#[derive(Clone, Copy, Debug, Default)]
struct Query {
    row: usize,
    head: usize,
    first: usize,
    end: usize,
}

/// Queries of one sequence and K/V head. Rows rise: neither the first position nor the end of what a query sees is
/// before that of an earlier query.
struct Queries<'a, T> {
    heads: &'a Heads<'a, T>,
    table: &'a BlockTable,
    kv_head: usize,
    v_dim: usize,
    queries: &'a [Query],
}

impl<T: Stored> Queries<'_, T> {
    #[inline(always)]
    fn attend<L: Lanes>(&self, lanes: L, scratch: &mut Scratch, tile: &mut Tile<'_, f32>) {
        let (n, k_dim) = (self.queries.len(), self.k_dim());
        let Scratch { scores, means, page } = scratch;
        grow(scores, n);
        grow(means, (n * self.v_dim).div_ceil(LANES));
        grow(page, PAGE / LANES * k_dim.max(self.v_dim));
        let means: &mut [f32] = &mut bytemuck::cast_slice_mut(means)[..n * self.v_dim];
        let page: &mut [f32] = bytemuck::cast_slice_mut(page);
        let (mut max, mut total) = ([f32::NEG_INFINITY; TOGETHER], [0.0; TOGETHER]);
        for c in 0..n {
            self.out(tile, c).fill(0.0);
        }
        let chunks = self.queries[0].first / CHUNK * CHUNK..self.queries[n - 1].end;
        for first in chunks.step_by(CHUNK) {
            self.scores(lanes, first, scores, page);
            let (mut chunk_max, mut chunk_total) = ([0.0; TOGETHER], [0.0; TOGETHER]);
            for c in 0..n {
                (chunk_max[c], chunk_total[c]) = softmax(lanes, &mut scores[c].0, self.seen(c, first));
            }
            means.fill(0.0);
            self.mix(lanes, first, scores, page, means);
            for c in 0..n {
                if self.seen(c, first).is_empty() {
                    continue;
                }
                let new_max = if max[c] > chunk_max[c] { max[c] } else { chunk_max[c] };
                let (old, new) = ((max[c] - new_max).exp(), (chunk_max[c] - new_max).exp());
                for (y, &mean) in self.out(tile, c).iter_mut().zip(&means[c * self.v_dim..]) {
                    *y = *y * old + mean * new;
                }
                total[c] = total[c] * old + chunk_total[c] * new;
                max[c] = new_max;
            }
        }
        for c in 0..n {
            for y in self.out(tile, c) {
                *y /= total[c];
            }
        }
    }

    /// Columns of a query and of a key.
    #[inline(always)]
    fn k_dim(&self) -> usize {
        self.heads.q.len() / (self.heads.rows.len() * self.heads.heads)
    }

    /// The positions of the chunk that begins at `chunk` which query `c` sees, counted from there.
    #[inline(always)]
    fn seen(&self, c: usize, chunk: usize) -> Range<usize> {
        let Query { first, end, .. } = self.queries[c];
        first.clamp(chunk, chunk + CHUNK) - chunk..end.clamp(chunk, chunk + CHUNK) - chunk
    }

    /// The same of its pages that any query sees; begins with a page.
    #[inline(always)]
    fn pages(&self, chunk: usize) -> Range<usize> {
        let last = self.queries.len() - 1;
        self.seen(0, chunk).start / PAGE * PAGE..self.seen(last, chunk).end
    }

    /// The result of query `c`.
    #[inline(always)]
    fn out<'t>(&self, tile: &'t mut Tile<'_, f32>, c: usize) -> &'t mut [f32] {
        let Query { row, head, .. } = self.queries[c];
        let first = tile.cols().start;
        &mut tile.row(row)[head * self.v_dim - first..][..self.v_dim]
    }

    /// Queries of the tile that begins with query `c`.
    #[inline(always)]
    fn width<L: Lanes>(&self, c: usize) -> usize {
        match (self.queries.len() - c, L::TILE) {
            (8.., 6) => 8,
            (4.., 6) => 4,
            (2.., 3 | 6) => 2,
            _ => 1,
        }
    }

    /// Whether a page is read by several tiles, and is worth to be converted for them.
    #[inline(always)]
    fn converts_pages<L: Lanes>(&self) -> bool {
        size_of::<T>() < size_of::<f32>() && self.width::<L>(0) < self.queries.len()
    }

    /// The scores of the chunk that begins at `chunk`, of each query at least of the positions that it sees.
    #[inline(always)]
    fn scores<L: Lanes>(&self, lanes: L, chunk: usize, scores: &mut [Scores], converted: &mut [f32]) {
        let keys = |start| self.heads.store.page(self.table, self.kv_head, chunk + start).0.as_flattened();
        let pages = self.pages(chunk);
        for start in pages.clone().step_by(PAGE) {
            let numbers = keys(start);
            // What comes next: keys, and after the last of them values.
            let ahead = match start + PAGE {
                next if next < pages.end => bytes_of(keys(next)),
                _ => bytes_of(self.heads.store.page(self.table, self.kv_head, chunk + pages.start).1),
            };
            if self.converts_pages::<L>() {
                let numbers = convert(lanes, numbers, ahead, converted);
                self.score_page(lanes, &Page { numbers, start, chunk, ahead: None }, scores);
            } else {
                self.score_page(lanes, &Page { numbers, start, chunk, ahead: Some(ahead) }, scores);
            }
        }
    }

    #[inline(always)]
    fn score_page<L: Lanes, N: Stored>(&self, lanes: L, page: &Page<'_, N>, scores: &mut [Scores]) {
        let mut c = 0;
        while c < self.queries.len() {
            let width = self.width::<L>(c);
            let (first, last) = (self.seen(c, page.chunk), self.seen(c + width - 1, page.chunk));
            if page.start < last.end && first.start < page.start + PAGE {
                match width {
                    8 => self.score_tile::<L, N, 8>(lanes, page, c, scores),
                    4 => self.score_tile::<L, N, 4>(lanes, page, c, scores),
                    2 => self.score_tile::<L, N, 2>(lanes, page, c, scores),
                    _ => self.score_tile::<L, N, 1>(lanes, page, c, scores),
                }
            }
            c += width;
        }
    }

    /// The scores of the `C` queries from `first` on.
    #[inline(always)]
    fn score_tile<L: Lanes, N: Stored, const C: usize>(
        &self,
        lanes: L,
        page: &Page<'_, N>,
        first: usize,
        scores: &mut [Scores],
    ) {
        let keys = page.numbers.as_chunks::<PAGE>().0;
        let mut q: [&[f32]; C] = [&[]; C];
        for c in 0..C {
            let Query { row, head, .. } = self.queries[first + c];
            let at = row * self.heads.heads + head;
            q[c] = &self.heads.q[at * keys.len()..][..keys.len()];
        }
        let scale = lanes.splat(self.heads.scale);
        let mut sums = [[lanes.splat(0.0); 2]; C];
        for (d, keys) in keys.iter().enumerate() {
            if let Some(ahead) = page.ahead {
                lanes.prefetch(ahead.wrapping_add(d * size_of::<[N; PAGE]>()));
            }
            let (halves, _) = keys.as_chunks::<LANES>();
            let keys = [N::widen(lanes, &halves[0]), N::widen(lanes, &halves[1])];
            for c in 0..C {
                let q = lanes.splat(q[c][d]);
                sums[c][0] = lanes.mul_add(keys[0], q, sums[c][0]);
                sums[c][1] = lanes.mul_add(keys[1], q, sums[c][1]);
            }
        }
        for c in 0..C {
            let to = scores[first + c].0[page.start..].as_chunks_mut::<LANES>().0;
            lanes.put(lanes.mul(sums[c][0], scale), &mut to[0]);
            lanes.put(lanes.mul(sums[c][1], scale), &mut to[1]);
        }
    }

    /// Adds the values of the chunk that begins at `chunk`, times the weights `scores`, to the means.
    #[inline(always)]
    fn mix<L: Lanes>(
        &self,
        lanes: L,
        chunk: usize,
        scores: &[Scores],
        converted: &mut [f32],
        means: &mut [f32],
    ) {
        let values = |start| self.heads.store.page(self.table, self.kv_head, chunk + start).1;
        let pages = self.pages(chunk);
        for start in pages.clone().step_by(PAGE) {
            let numbers = values(start);
            let ahead = bytes_of(if start + PAGE < pages.end { values(start + PAGE) } else { numbers });
            if self.converts_pages::<L>() {
                let numbers = convert(lanes, numbers, ahead, converted);
                self.mix_page(lanes, &Page { numbers, start, chunk, ahead: None }, scores, means);
            } else {
                self.mix_page(lanes, &Page { numbers, start, chunk, ahead: Some(ahead) }, scores, means);
            }
        }
    }

    #[inline(always)]
    fn mix_page<L: Lanes, N: Stored>(
        &self,
        lanes: L,
        page: &Page<'_, N>,
        scores: &[Scores],
        means: &mut [f32],
    ) {
        let mut c = 0;
        while c < self.queries.len() {
            let width = self.width::<L>(c);
            let (first, last) = (self.seen_of(page, c), self.seen_of(page, c + width - 1));
            // What all of them see; what a query sees before and after that is its own.
            let all = last.start.min(first.end)..first.end;
            if first.start < all.start {
                for c in c..c + width {
                    let own = self.seen_of(page, c);
                    let before = own.start..all.start.min(own.end);
                    self.mix_tile::<L, N, 1>(lanes, page, before, c, scores, means);
                }
            }
            match width {
                8 => self.mix_tile::<L, N, 8>(lanes, page, all.clone(), c, scores, means),
                4 => self.mix_tile::<L, N, 4>(lanes, page, all.clone(), c, scores, means),
                2 => self.mix_tile::<L, N, 2>(lanes, page, all.clone(), c, scores, means),
                _ => self.mix_tile::<L, N, 1>(lanes, page, all.clone(), c, scores, means),
            }
            if all.end < last.end {
                for c in c..c + width {
                    let own = self.seen_of(page, c);
                    let after = all.end.max(own.start)..own.end;
                    self.mix_tile::<L, N, 1>(lanes, page, after, c, scores, means);
                }
            }
            c += width;
        }
    }

    /// The positions of a page that query `c` sees, counted from the chunk.
    #[inline(always)]
    fn seen_of<N>(&self, page: &Page<'_, N>, c: usize) -> Range<usize> {
        let (Range { start, end }, of_page) = (self.seen(c, page.chunk), page.start..page.start + PAGE);
        start.clamp(of_page.start, of_page.end)..end.clamp(of_page.start, of_page.end)
    }

    /// Adds the values of the positions `part` of the chunk to the means of the `C` queries from `first` on.
    #[inline(always)]
    fn mix_tile<L: Lanes, N: Stored, const C: usize>(
        &self,
        lanes: L,
        page: &Page<'_, N>,
        part: Range<usize>,
        first: usize,
        scores: &[Scores],
        means: &mut [f32],
    ) {
        if part.is_empty() {
            return;
        }
        let dim = self.v_dim;
        let values = &page.numbers[(part.start - page.start) * dim..(part.end - page.start) * dim];
        let mut weights: [&[f32]; C] = [&[]; C];
        for c in 0..C {
            weights[c] = &scores[first + c].0[part.clone()];
        }
        let means = &mut means[first * dim..][..C * dim];
        let mut col = 0;
        while col + 2 * LANES <= dim {
            mix_columns::<L, N, 2, C>(lanes, values, page.ahead, dim, col, weights, means);
            col += 2 * LANES;
        }
        if col + LANES <= dim {
            mix_columns::<L, N, 1, C>(lanes, values, page.ahead, dim, col, weights, means);
            col += LANES;
        }
        if col < dim {
            mix_rest::<L, N, C>(lanes, values, dim, col, weights, means);
        }
    }
}

/// Has at least `len` elements from now on.
fn grow<E: Zeroable + Clone>(elements: &mut Vec<E>, len: usize) {
    elements.resize(len.max(elements.len()), E::zeroed());
}

/// Converts a page to the first of `to`; as much is asked for from `ahead` on.
#[inline(always)]
fn convert<'a, L: Lanes, T: Stored>(lanes: L, page: &[T], ahead: *const u8, to: &'a mut [f32]) -> &'a [f32] {
    let converted = &mut to[..page.len()];
    let (from, to) = (page.as_chunks::<{ 2 * LANES }>().0, converted.as_chunks_mut::<{ 2 * LANES }>().0);
    for (i, (from, to)) in from.iter().zip(to).enumerate() {
        lanes.prefetch(ahead.wrapping_add(i * size_of::<[T; 2 * LANES]>()));
        let (from, to) = (from.as_chunks::<LANES>().0, to.as_chunks_mut::<LANES>().0);
        lanes.put(T::widen(lanes, &from[0]), &mut to[0]);
        lanes.put(T::widen(lanes, &from[1]), &mut to[1]);
    }
    converted
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
    ahead: Option<*const u8>,
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
        if let Some(ahead) = ahead {
            lanes.prefetch(ahead.wrapping_add((j * dim + col) * size_of::<T>()));
        }
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

/// Turns the scores `seen` into `e` to the power of what they are less than the largest; returns the largest and the
/// sum. Scores of the same vectors that are not seen become 0.
#[inline(always)]
fn softmax<L: Lanes>(lanes: L, scores: &mut [f32; CHUNK], seen: Range<usize>) -> (f32, f32) {
    let whole = seen.start / LANES * LANES..seen.end.next_multiple_of(LANES);
    scores[whole.start..seen.start].fill(f32::NEG_INFINITY);
    scores[seen.end..whole.end].fill(f32::NEG_INFINITY);
    let vectors = scores[whole].as_chunks_mut::<LANES>().0;
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
