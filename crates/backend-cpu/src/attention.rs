//! Attention over the paged KV cache.
//!
//! Queries that share a K/V head are tiled: the heads of one row, and neighbouring rows. Positions are processed in chunks
//! of 512, counted from position 0. Each chunk has its own softmax, and chunks are merged in order (online softmax: Milakov
//! and Gimelshein 2018; Dao et al. 2022). QK sums over the head dimension in order, PV over the positions in order, so a
//! result depends neither on how the prompt was chunked nor on the rest of the batch.
//!
//! Whatever the mask, chunks keep their boundaries: softmax weights of positions that a query does not see are 0, and blocks
//! that no query sees are not read. Blocks that no query of a task can see may have been freed.
//!
//! The lanes of a vector are positions in QK and columns in PV. A loaded vector of K or V is used by all queries of a tile.
//! If a task has several tiles, each block is converted to f32 once for all of them.

#![expect(clippy::needless_range_loop, reason = "arrays of one tile are indexed side by side")]

use std::cell::Cell;
use std::ops::Range;

use backend::{BlockTable, KV_BLOCK, Sequence};
use bytemuck::Zeroable;
use graph::{Group, Score};

use crate::kv::{Blocks, Stored};
use crate::lanes::{LANES, Lanes, WithSimd, exp, softcap};
use crate::memory::Line;
use crate::pool::Tile;

/// Positions per chunk.
const CHUNK: usize = 512;

/// Maximum queries that share converted blocks. Their scores must stay in L2.
pub(crate) const QUERY_TILE: usize = 64;

thread_local! {
    /// Reused by all tasks of a thread: clearing it per task would cost 10 % of a short prompt.
    static SCRATCH: Cell<Scratch> = Cell::default();
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a, S> {
    pub(crate) store: &'a S,
    /// The store's group and the group's index.
    pub(crate) group: (Group, usize),
    /// Sequence and position of each row.
    pub(crate) rows: &'a [(&'a Sequence, usize)],
    /// `[rows, heads * k_dim]`.
    pub(crate) q: &'a [f32],
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) score: Score,
    /// A logit per head that only enters the softmax's denominator.
    pub(crate) sinks: Option<&'a [f32]>,
}

/// Computes a tile of the result: some rows, and all heads of one K/V head.
pub(crate) struct Attend<'a, 't, S> {
    pub(crate) heads: Heads<'a, S>,
    pub(crate) tile: Tile<'t, f32>,
}

impl<S: Blocks> WithSimd for Attend<'_, '_, S> {
    #[inline(always)]
    fn with_simd<L: Lanes>(mut self, lanes: L) {
        let share = self.heads.heads / self.heads.kv_heads;
        let v_dim = self.tile.cols().len() / share;
        let kv_head = self.tile.cols().start / (v_dim * share);
        let (group, index) = self.heads.group;
        let mut scratch = SCRATCH.take();
        let mut rows = self.tile.rows();
        while let Some(first) = rows.next() {
            // Rows of one sequence, with all their heads.
            let sequence = self.heads.rows[first].0;
            while rows.start < rows.end && std::ptr::eq(self.heads.rows[rows.start].0, sequence) {
                rows.next();
            }
            let queries = first * share..rows.start * share;
            for first in queries.clone().step_by(QUERY_TILE) {
                let range = first..queries.end.min(first + QUERY_TILE);
                let mut queries = [Query::default(); QUERY_TILE];
                for (query, number) in queries.iter_mut().zip(range.clone()) {
                    let (row, head) = (number / share, kv_head * share + number % share);
                    let (sequence, position) = self.heads.rows[row];
                    let Range { start: first, end } = sequence.visible(group.mask, position);
                    *query = Query { row, head, position, first, end };
                }
                let queries = &queries[..range.len()];
                let table = &sequence.tables[index];
                let queries = Queries { heads: &self.heads, table, kv_head, v_dim, queries };
                queries.attend(lanes, &mut scratch, &mut self.tile);
            }
        }
        SCRATCH.set(scratch);
    }
}

/// A query's scores in a chunk, later their exponentials.
#[derive(Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Scores([f32; CHUNK]);

#[derive(Default)]
struct Scratch {
    scores: Vec<Scores>,
    /// PV of a chunk, `[queries][v_dim]`.
    pv_sums: Vec<Line>,
    /// A block, converted to f32.
    block: Vec<Line>,
}

struct Block<'a, N> {
    data: &'a [N],
    /// First position, counted from `chunk`.
    start: usize,
    chunk: usize,
    /// Address to prefetch from while the block is read.
    ahead: Option<*const u8>,
}

/// A query and its visible positions, `first..end`.
#[derive(Clone, Copy, Debug, Default)]
struct Query {
    row: usize,
    head: usize,
    position: usize,
    first: usize,
    end: usize,
}

/// Queries of one sequence and K/V head, in row order: `first` and `end` never decrease.
struct Queries<'a, S> {
    heads: &'a Heads<'a, S>,
    table: &'a BlockTable,
    kv_head: usize,
    v_dim: usize,
    queries: &'a [Query],
}

impl<S: Blocks> Queries<'_, S> {
    #[inline(always)]
    fn attend<L: Lanes>(&self, lanes: L, scratch: &mut Scratch, tile: &mut Tile<'_, f32>) {
        let (n, k_dim) = (self.queries.len(), self.k_dim());
        let Scratch { scores, pv_sums, block } = scratch;
        grow(scores, n);
        grow(pv_sums, (n * self.v_dim).div_ceil(LANES));
        grow(block, KV_BLOCK / LANES * k_dim.max(self.v_dim));
        let pv_sums: &mut [f32] = &mut bytemuck::cast_slice_mut(pv_sums)[..n * self.v_dim];
        let block: &mut [f32] = bytemuck::cast_slice_mut(block);
        let (mut max, mut total) = ([f32::NEG_INFINITY; QUERY_TILE], [0.0; QUERY_TILE]);
        for c in 0..n {
            if let Some(sinks) = self.heads.sinks {
                (max[c], total[c]) = (sinks[self.queries[c].head], 1.0);
            }
            self.out(tile, c).fill(0.0);
        }
        let chunks = self.queries[0].first / CHUNK * CHUNK..self.queries[n - 1].end;
        for first in chunks.step_by(CHUNK) {
            self.scores(lanes, first, scores, block);
            let (mut chunk_max, mut chunk_total) = ([0.0; QUERY_TILE], [0.0; QUERY_TILE]);
            for c in 0..n {
                self.alibi(c, first, &mut scores[c].0);
                (chunk_max[c], chunk_total[c]) =
                    softmax(lanes, &mut scores[c].0, self.seen(c, first), self.heads.score.cap);
            }
            pv_sums.fill(0.0);
            self.pv(lanes, first, scores, block, pv_sums);
            for c in 0..n {
                if self.seen(c, first).is_empty() {
                    continue;
                }
                let new_max = if max[c] > chunk_max[c] { max[c] } else { chunk_max[c] };
                let (old, new) = ((max[c] - new_max).exp(), (chunk_max[c] - new_max).exp());
                for (y, &pv_sum) in self.out(tile, c).iter_mut().zip(&pv_sums[c * self.v_dim..]) {
                    *y = *y * old + pv_sum * new;
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

    #[inline(always)]
    fn k_dim(&self) -> usize {
        self.heads.q.len() / (self.heads.rows.len() * self.heads.heads)
    }

    /// The entry of the store that holds `position`.
    #[inline(always)]
    fn entry(&self, position: usize) -> usize {
        self.table.slot(position).0 * self.heads.kv_heads + self.kv_head
    }

    /// The positions of a chunk that query `c` sees, counted from `chunk`.
    #[inline(always)]
    fn seen(&self, c: usize, chunk: usize) -> Range<usize> {
        let Query { first, end, .. } = self.queries[c];
        first.clamp(chunk, chunk + CHUNK) - chunk..end.clamp(chunk, chunk + CHUNK) - chunk
    }

    /// Subtracts the ALiBi slope of query `c` times the distance of each position of the chunk at `chunk`.
    #[inline(always)]
    fn alibi(&self, c: usize, chunk: usize, scores: &mut [f32; CHUNK]) {
        if self.heads.score.alibi.is_none() {
            return;
        }
        let Query { head, position, .. } = self.queries[c];
        let slope = self.heads.score.slope(head, self.heads.heads);
        for at in self.seen(c, chunk) {
            scores[at] -= slope * (chunk + at).abs_diff(position) as f32;
        }
    }

    /// The positions of a chunk that any query sees, from a block boundary on.
    #[inline(always)]
    fn blocks(&self, chunk: usize) -> Range<usize> {
        let last = self.queries.len() - 1;
        self.seen(0, chunk).start / KV_BLOCK * KV_BLOCK..self.seen(last, chunk).end
    }

    #[inline(always)]
    fn out<'t>(&self, tile: &'t mut Tile<'_, f32>, c: usize) -> &'t mut [f32] {
        let Query { row, head, .. } = self.queries[c];
        let first = tile.cols().start;
        &mut tile.row(row)[head * self.v_dim - first..][..self.v_dim]
    }

    /// Number of queries in the query tile that starts at query `c`.
    #[inline(always)]
    fn width<L: Lanes>(&self, c: usize) -> usize {
        match (self.queries.len() - c, L::TILE) {
            (8.., 6) => 8,
            (4.., 6) => 4,
            (2.., 4 | 6) => 2,
            _ => 1,
        }
    }

    /// Whether blocks are packed, or several tiles read one, so that converting it once pays off.
    #[inline(always)]
    fn converts_blocks<L: Lanes>(&self) -> bool {
        S::IS_PACKED || size_of::<S::Item>() < size_of::<f32>() && self.width::<L>(0) < self.queries.len()
    }

    /// QK of the chunk at `chunk`: for each query, at least its visible positions.
    #[inline(always)]
    fn scores<L: Lanes>(&self, lanes: L, chunk: usize, scores: &mut [Scores], converted: &mut [f32]) {
        let (store, blocks) = (self.heads.store, self.blocks(chunk));
        let entry = |start| self.entry(chunk + start);
        for start in blocks.clone().step_by(KV_BLOCK) {
            let at = entry(start);
            // Prefetches the next block of K; during the last one, the first block of V.
            let ahead = match start + KV_BLOCK {
                next if next < blocks.end => store.start::<false>(entry(next)),
                _ => store.start::<true>(entry(blocks.start)),
            };
            if self.converts_blocks::<L>() {
                let data = store.convert::<L, false>(lanes, at, ahead, converted);
                self.qk_block(lanes, &Block { data, start, chunk, ahead: None }, scores);
            } else {
                let data = store.block::<false>(at);
                self.qk_block(lanes, &Block { data, start, chunk, ahead: Some(ahead) }, scores);
            }
        }
    }

    #[inline(always)]
    fn qk_block<L: Lanes, N: Stored>(&self, lanes: L, block: &Block<'_, N>, scores: &mut [Scores]) {
        let mut c = 0;
        while c < self.queries.len() {
            let width = self.width::<L>(c);
            let (first, last) = (self.seen(c, block.chunk), self.seen(c + width - 1, block.chunk));
            if block.start < last.end && first.start < block.start + KV_BLOCK {
                match width {
                    8 => self.qk_tile::<L, N, 8>(lanes, block, c, scores),
                    4 => self.qk_tile::<L, N, 4>(lanes, block, c, scores),
                    2 => self.qk_tile::<L, N, 2>(lanes, block, c, scores),
                    _ => self.qk_tile::<L, N, 1>(lanes, block, c, scores),
                }
            }
            c += width;
        }
    }

    /// QK of `C` queries from `first` on.
    #[inline(always)]
    fn qk_tile<L: Lanes, N: Stored, const C: usize>(
        &self,
        lanes: L,
        block: &Block<'_, N>,
        first: usize,
        scores: &mut [Scores],
    ) {
        let keys = block.data.as_chunks::<KV_BLOCK>().0;
        let mut q: [&[f32]; C] = [&[]; C];
        for c in 0..C {
            let Query { row, head, .. } = self.queries[first + c];
            let at = row * self.heads.heads + head;
            q[c] = &self.heads.q[at * keys.len()..][..keys.len()];
        }
        let scale = lanes.splat(self.heads.score.scale);
        let mut sums = [[lanes.splat(0.0); 2]; C];
        for (d, keys) in keys.iter().enumerate() {
            if let Some(ahead) = block.ahead {
                lanes.prefetch(ahead.wrapping_add(d * size_of::<[N; KV_BLOCK]>()));
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
            let to = scores[first + c].0[block.start..].as_chunks_mut::<LANES>().0;
            lanes.store_f32(lanes.mul(sums[c][0], scale), &mut to[0]);
            lanes.store_f32(lanes.mul(sums[c][1], scale), &mut to[1]);
        }
    }

    /// PV of the chunk at `chunk`, added to `pv_sums`.
    #[inline(always)]
    fn pv<L: Lanes>(
        &self,
        lanes: L,
        chunk: usize,
        scores: &[Scores],
        converted: &mut [f32],
        pv_sums: &mut [f32],
    ) {
        let (store, blocks) = (self.heads.store, self.blocks(chunk));
        let entry = |start| self.entry(chunk + start);
        for start in blocks.clone().step_by(KV_BLOCK) {
            let at = entry(start);
            let ahead =
                store.start::<true>(if start + KV_BLOCK < blocks.end { entry(start + KV_BLOCK) } else { at });
            if self.converts_blocks::<L>() {
                let data = store.convert::<L, true>(lanes, at, ahead, converted);
                self.pv_block(lanes, &Block { data, start, chunk, ahead: None }, scores, pv_sums);
            } else {
                let data = store.block::<true>(at);
                self.pv_block(lanes, &Block { data, start, chunk, ahead: Some(ahead) }, scores, pv_sums);
            }
        }
    }

    #[inline(always)]
    fn pv_block<L: Lanes, N: Stored>(
        &self,
        lanes: L,
        block: &Block<'_, N>,
        scores: &[Scores],
        pv_sums: &mut [f32],
    ) {
        let mut c = 0;
        while c < self.queries.len() {
            let width = self.width::<L>(c);
            let (first, last) = (self.seen_in(block, c), self.seen_in(block, c + width - 1));
            // Positions that all queries see; those before and after are handled per query.
            let all = last.start.min(first.end)..first.end;
            if first.start < all.start {
                for c in c..c + width {
                    let own = self.seen_in(block, c);
                    let before = own.start..all.start.min(own.end);
                    self.pv_tile::<L, N, 1>(lanes, block, before, c, scores, pv_sums);
                }
            }
            match width {
                8 => self.pv_tile::<L, N, 8>(lanes, block, all.clone(), c, scores, pv_sums),
                4 => self.pv_tile::<L, N, 4>(lanes, block, all.clone(), c, scores, pv_sums),
                2 => self.pv_tile::<L, N, 2>(lanes, block, all.clone(), c, scores, pv_sums),
                _ => self.pv_tile::<L, N, 1>(lanes, block, all.clone(), c, scores, pv_sums),
            }
            if all.end < last.end {
                for c in c..c + width {
                    let own = self.seen_in(block, c);
                    let after = all.end.max(own.start)..own.end;
                    self.pv_tile::<L, N, 1>(lanes, block, after, c, scores, pv_sums);
                }
            }
            c += width;
        }
    }

    /// The positions of a block that query `c` sees, counted from the chunk's start.
    #[inline(always)]
    fn seen_in<N>(&self, block: &Block<'_, N>, c: usize) -> Range<usize> {
        let (Range { start, end }, block_range) =
            (self.seen(c, block.chunk), block.start..block.start + KV_BLOCK);
        start.clamp(block_range.start, block_range.end)..end.clamp(block_range.start, block_range.end)
    }

    /// PV of positions `part` for `C` queries from `first` on.
    #[inline(always)]
    fn pv_tile<L: Lanes, N: Stored, const C: usize>(
        &self,
        lanes: L,
        block: &Block<'_, N>,
        part: Range<usize>,
        first: usize,
        scores: &[Scores],
        pv_sums: &mut [f32],
    ) {
        if part.is_empty() {
            return;
        }
        let dim = self.v_dim;
        let values = &block.data[(part.start - block.start) * dim..(part.end - block.start) * dim];
        let mut weights: [&[f32]; C] = [&[]; C];
        for c in 0..C {
            weights[c] = &scores[first + c].0[part.clone()];
        }
        let pv_sums = &mut pv_sums[first * dim..][..C * dim];
        let mut col = 0;
        while col + 2 * LANES <= dim {
            pv_columns::<L, N, 2, C>(lanes, values, block.ahead, dim, col, weights, pv_sums);
            col += 2 * LANES;
        }
        if col + LANES <= dim {
            pv_columns::<L, N, 1, C>(lanes, values, block.ahead, dim, col, weights, pv_sums);
            col += LANES;
        }
        if col < dim {
            pv_rest::<L, N, C>(lanes, values, dim, col, weights, pv_sums);
        }
    }
}

/// Grows to at least `len` elements.
fn grow<E: Zeroable + Clone>(elements: &mut Vec<E>, len: usize) {
    elements.resize(len.max(elements.len()), E::zeroed());
}

/// PV of `16 * R` columns from `col` on; prefetches the same columns at `ahead`.
#[inline(always)]
fn pv_columns<L: Lanes, T: Stored, const R: usize, const C: usize>(
    lanes: L,
    values: &[T],
    ahead: Option<*const u8>,
    dim: usize,
    col: usize,
    weights: [&[f32]; C],
    pv_sums: &mut [f32],
) {
    let mut sums = [[lanes.splat(0.0); R]; C];
    for c in 0..C {
        for r in 0..R {
            sums[c][r] = lanes.load_f32(sixteen(&pv_sums[c * dim + col + r * LANES..]));
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
            let to = &mut pv_sums[c * dim + col + r * LANES..][..LANES];
            lanes.store_f32(sums[c][r], to.try_into().expect("sixteen"));
        }
    }
}

/// PV of the last columns, fewer than 16.
#[inline(always)]
fn pv_rest<L: Lanes, T: Stored, const C: usize>(
    lanes: L,
    values: &[T],
    dim: usize,
    col: usize,
    weights: [&[f32]; C],
    pv_sums: &mut [f32],
) {
    for c in 0..C {
        let pv_sum = &mut pv_sums[c * dim..][..dim][col..];
        let mut sums = [0.0; LANES];
        sums[..pv_sum.len()].copy_from_slice(pv_sum);
        let mut sum = lanes.load_f32(&sums);
        for (row, &weight) in values.chunks_exact(dim).zip(weights[c]) {
            let mut value = [T::zeroed(); LANES];
            value[..dim - col].copy_from_slice(&row[col..]);
            sum = lanes.mul_add(lanes.splat(weight), T::widen(lanes, &value), sum);
        }
        lanes.store_f32(sum, &mut sums);
        pv_sum.copy_from_slice(&sums[..pv_sum.len()]);
    }
}

#[inline(always)]
fn sixteen<T>(data: &[T]) -> &[T; LANES] {
    data[..LANES].try_into().expect("sixteen")
}

/// Caps the scores and replaces the visible ones by `exp(score - max)`; returns `max` and the sum. Invisible scores of the same vectors become
/// 0.
#[inline(always)]
fn softmax<L: Lanes>(
    lanes: L,
    scores: &mut [f32; CHUNK],
    seen: Range<usize>,
    cap: Option<f32>,
) -> (f32, f32) {
    let whole = seen.start / LANES * LANES..seen.end.next_multiple_of(LANES);
    if let Some(cap) = cap {
        for vector in scores[whole.clone()].as_chunks_mut::<LANES>().0 {
            lanes.store_f32(softcap(lanes, lanes.load_f32(vector), cap), vector);
        }
    }
    scores[whole.start..seen.start].fill(f32::NEG_INFINITY);
    scores[seen.end..whole.end].fill(f32::NEG_INFINITY);
    let vectors = scores[whole].as_chunks_mut::<LANES>().0;
    let mut max = lanes.splat(f32::NEG_INFINITY);
    for vector in &*vectors {
        max = lanes.max(max, lanes.load_f32(vector));
    }
    let mut lane_values = [0.0; LANES];
    lanes.store_f32(max, &mut lane_values);
    let mut max = lane_values[0];
    for &value in &lane_values {
        max = if value > max { value } else { max };
    }
    let minus_max = lanes.splat(-max);
    let mut sum = lanes.splat(0.0);
    for vector in vectors {
        let power = exp(lanes, lanes.add(lanes.load_f32(vector), minus_max));
        lanes.store_f32(power, vector);
        sum = lanes.add(sum, power);
    }
    lanes.store_f32(sum, &mut lane_values);
    let mut sum = 0.0;
    for value in lane_values {
        sum += value;
    }
    (max, sum)
}
