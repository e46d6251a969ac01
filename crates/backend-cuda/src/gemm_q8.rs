//! Launches of `gemm_q8`: matmuls of few rows on tensor cores, with activations of 8 bits.

use passes::{CHUNK, Cost, Layout, Purpose, kernel_name};
use quant::Format;

use crate::compile::Compiler;
use crate::driver::Device;
use crate::launch::{BufferId, Each, F32, Grid, LaunchPlan};
use crate::matmul::{Matmul, Mode};
use crate::occupancy::Limits;

/// Outputs of a tile, chunks of a stage, and bytes of a chunk of eight rows of activations, as in `kernels/gemm_q8.cuh`.
const OUTPUTS: usize = 32;
const STAGE_CHUNKS: usize = 16;
const EIGHT_ROWS: usize = 8;
const CHUNK_BYTES: usize = EIGHT_ROWS * (CHUNK + 3 * 4);

/// Threads of `q8_rows`.
const Q8_ROWS_THREADS: u32 = 512;

/// Blocks of a cluster at most.
const MAX_CLUSTER: usize = 8;

/// Blocks of a multiprocessor at most: their kernels have up to 128 registers per thread.
const MAX_BLOCKS: usize = 2;

/// How a matmul is divided among blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    /// Blocks of a cluster, which divide the columns; clusters, which divide the tiles.
    cluster: usize,
    clusters: usize,
    /// Dynamic shared memory of a block in bytes.
    shared: usize,
}

/// Bytes of the ring of stages.
fn ring_bytes(format: Format) -> usize {
    let pitch = |bytes: usize| if bytes < 32 { bytes } else { bytes + 16 };
    let stage = OUTPUTS * Layout::new(format, 1, STAGE_CHUNKS * CHUNK, 1).pitches().map(pitch).sum::<usize>();
    stage * if stage > 12288 { 3 } else { 4 }
}

/// Static shared memory of a kernel of `rows` rows in bytes.
fn fixed_bytes(rows: usize) -> usize {
    2 * 4 * rows * (OUTPUTS + 4) * F32 + 16
}

/// The division of `tiles` tiles of `chunks` chunks and `rows` rows that takes the fewest steps, if the activations fit.
fn divide(
    limits: &Limits,
    multiprocessors: usize,
    format: Format,
    (tiles, chunks, rows): (usize, usize, usize),
) -> Option<Division> {
    let stages = chunks.div_ceil(STAGE_CHUNKS);
    let groups = rows.div_ceil(EIGHT_ROWS);
    let of_cluster = |cluster: usize| {
        let of_block = stages.div_ceil(cluster);
        let columns = ring_bytes(format) + groups * (of_block * STAGE_CHUNKS).min(chunks) * CHUNK_BYTES;
        let best = (1..=MAX_BLOCKS).filter_map(|blocks| {
            let clusters = (multiprocessors * blocks / cluster).min(tiles).max(1);
            let turns = tiles.div_ceil(clusters);
            let sums = if cluster > 1 { turns * rows * OUTPUTS * F32 } else { 0 };
            let shared = columns + sums;
            let taken = shared + fixed_bytes(rows);
            let fits = taken <= limits.shared_of_block && blocks * (taken + limits.reserved) <= limits.shared;
            let stages = turns * of_block * blocks;
            // Blocks beside each other wait less; those of a cluster wait for each other.
            let cost = stages * if blocks == 1 { 25 } else { 20 } + if cluster > 1 { stages + 20 } else { 0 };
            fits.then_some((cost, Division { cluster, clusters, shared }))
        });
        best.min_by_key(|&(cost, _)| cost)
    };
    let sizes = [1, 2, 4, 8].into_iter().filter(|&size| size <= MAX_CLUSTER.min(stages));
    sizes.filter_map(of_cluster).min_by_key(|&(cost, _)| cost).map(|(_, division)| division)
}

impl Compiler<'_> {
    fn division(&self, matmul: &Matmul, rows: usize) -> Option<Division> {
        let Device { limits, multiprocessors, card, .. } = self.device;
        let format = self.model.matrix(matmul.parts[0].0).format;
        let outputs = |part: usize| matmul.parts[part].1;
        let tiles = match matmul.glu {
            Some(_) => outputs(0).div_ceil(OUTPUTS / 2),
            None => (0..matmul.parts.len()).map(|part| outputs(part).div_ceil(OUTPUTS)).sum(),
        };
        if !card.has_wgmma() || matmul.mode != Mode::Plain {
            return None;
        }
        divide(limits, *multiprocessors, format, (tiles, matmul.cols.div_ceil(CHUNK), rows))
    }

    /// Whether `gemm_q8` can multiply this many rows.
    pub(crate) fn fits_gemm_q8(&self, matmul: &Matmul, rows: usize) -> bool {
        self.division(matmul, rows).is_some()
    }

    /// Quantises activations, unless `is_converted`, and multiplies them.
    pub(crate) fn gemm_q8(
        &mut self,
        matmul: &Matmul,
        rows: usize,
        is_converted: bool,
        cost: impl FnOnce(&str) -> Cost,
    ) -> Vec<LaunchPlan> {
        let Division { cluster, clusters, shared } =
            self.division(matmul, rows).expect("only what fits is computed so");
        let chunks = matmul.cols.div_ceil(CHUNK);
        let bytes = rows.div_ceil(EIGHT_ROWS) * chunks * CHUNK_BYTES;
        let quantised = self.scratch_buffer(|own| &mut own.q8_rows, Purpose::Activations, bytes);
        let mut launches = Vec::new();
        if !is_converted {
            let (x, [x_at, x_stride]) = matmul.x;
            let buffers: Vec<Option<BufferId>> =
                vec![Some(x), Some(quantised), matmul.norm.map(|norm| norm.0)];
            let eps = matmul.norm.map_or(0, |(_, eps)| eps.to_bits());
            let words = vec![x_at, x_stride, matmul.cols as u32, chunks as u32, eps];
            let cost = Cost::row("q8_rows", matmul.cols * (F32 + 1));
            let launch = self.launch("q8_rows/q8_rows", buffers, words, Grid::rows(1), cost);
            launches.push(LaunchPlan { threads: Q8_ROWS_THREADS, ..launch });
        }
        let name = kernel_name(self.model.matrix(matmul.parts[0].0).format);
        let kernel = format!("{name}/gemm_q8_{rows}");
        let (words, cost) = (matmul.words(self, 0), cost(&kernel));
        let grid = Grid { groups: clusters, each: Each::Rows(rows) };
        let buffers = matmul.buffers(Some([quantised, quantised]));
        let launch = self.launch(kernel, buffers, words, grid, cost);
        launches.push(LaunchPlan { shared, cluster: cluster as u32, ..launch });
        launches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H100.
    const LIMITS: Limits = Limits {
        registers: 65536,
        shared: 228 << 10,
        reserved: 1 << 10,
        shared_of_block: 227 << 10,
        is_side_by_side: true,
    };

    #[test]
    fn matmuls_of_few_outputs_divide_columns() {
        let of = |tiles, cols: usize, rows| {
            let found = divide(&LIMITS, 132, Format::Q4_K, (tiles, cols / CHUNK, rows));
            found.map(|division| (division.cluster, division.clusters))
        };
        assert_eq!(of(4008, 4096, 8), Some((1, 264)), "logits");
        assert_eq!(of(128, 4096, 8), Some((2, 128)), "output of attention");
        assert_eq!(of(128, 14336, 8).map(|division| division.0), Some(4), "down");
        assert_eq!(of(1, 32, 8), Some((1, 1)), "a single chunk");
        assert_eq!(of(128, 1 << 20, 16), None, "rows of activations that do not fit");
    }

    #[test]
    fn blocks_fit() {
        for format in Format::ALL.into_iter().filter(|&format| format != Format::F32) {
            for (tiles, chunks) in
                [(1, 1), (7, 17), (128, 128), (896, 128), (128, 448), (4008, 256), (256, 896)]
            {
                for rows in [8, 16] {
                    let Some(division) = divide(&LIMITS, 132, format, (tiles, chunks, rows)) else {
                        continue;
                    };
                    assert!(division.shared + fixed_bytes(rows) <= LIMITS.shared_of_block, "{division:?}");
                    assert!(division.clusters <= tiles, "no block without a tile: {division:?}");
                    assert!(
                        division.cluster <= chunks.div_ceil(STAGE_CHUNKS),
                        "nor without columns: {division:?}"
                    );
                }
            }
        }
    }
}
