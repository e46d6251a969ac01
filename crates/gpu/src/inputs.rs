//! Step inputs: everything that changes from step to step, in one buffer of words. In order: header, tokens,
//! positions, block table offsets, visible positions, output rows, rows of their sequences, attention tiles, sequences,
//! cos/sin tables, factors of positions, blocks, draws.

use backend::{BoundProgram, Draw, Error, Input, KV_BLOCK, Output, Slots, Step, StoreLayout, Transfer};
use graph::{Group, Op, Rope};

use crate::draws;
use crate::step::{Draws, StepShape};
use crate::tiles::{FLASH_ROWS, max_tiles};

/// Header words before those of the store groups: rows, output rows, and the offset of draws. Each group then has two: number of
/// splits and positions per split.
const HEAD: usize = 3;

/// The one of them with the offset of draws.
const DRAWS: usize = 2;

/// Words per sequence with a state.
const SEQUENCE: usize = 8;

/// Sequences per step that the block area is sized for.
const MAX_SEQUENCES: usize = 256;

/// Steps of more rows do not split attention.
pub const MAX_SPLIT_ROWS: usize = 8;

/// Maximum workgroups that share a row's positions.
pub const MAX_SPLITS: usize = 64;

/// Positions per workgroup from which attention is split.
const SPLIT_POSITIONS: usize = 128;

/// Biases up to which finding the largest logit adds them itself.
const MAX_FUSED_BIASES: usize = 16;

/// Marks a row that takes a token of the step before.
pub const FOLLOWS: u32 = 1 << 31;

/// Blocks of a cluster at most.
pub const MAX_CLUSTER: usize = 16;

/// Bytes of keys and values that a block copies in the time by which a merge through global memory is slower than one in a cluster.
/// Measured with one model on one card (`docs/gpu.md`).
const MERGE_BYTES: usize = 200 << 10;

/// How attention over a group of stores is split.
#[derive(Clone, Copy, Debug)]
pub struct Splits {
    /// Most splits of all rows of a step together; each row has at least one.
    pub per_step: usize,
    /// What the positions of a split are a multiple of.
    pub block: usize,
    /// Clusters that attention of single rows has, where it can.
    pub clusters: Option<Clusters>,
}

/// Blocks that share a row's positions, and merge their results without a way through global memory.
#[derive(Clone, Copy, Debug)]
pub struct Clusters {
    /// Clusters that run at the same time, by their number of blocks.
    pub active: [usize; MAX_CLUSTER + 1],
    /// Clusters of a row: one for each block of heads.
    pub per_row: usize,
    /// Blocks that keep the device busy.
    pub busy: usize,
    /// Bytes of a position's keys and values that a cluster reads.
    pub position_bytes: usize,
}

impl Clusters {
    /// Blocks of the largest clusters of which all of a step of `rows` rows can run at the same time; nothing if they leave so much
    /// of the device idle that `splits` blocks are faster, although their merge is slower. Room that blocks of the kernel before
    /// take is not counted: clusters that wait for it hold nothing up.
    fn size(&self, visible: usize, rows: usize, splits: usize) -> Option<usize> {
        let clusters = rows * self.per_row;
        let size = (2..=MAX_CLUSTER).rev().find(|&size| self.active[size] >= clusters)?;
        // What a block copies less without clusters, times the blocks that then copy at the same time.
        let blocks = (splits * clusters).min(self.busy);
        let idle = blocks.saturating_sub(size * clusters);
        let saved = visible * self.position_bytes / size * idle;
        (saved <= MERGE_BYTES * blocks).then_some(size)
    }
}

/// Splits of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    splits: usize,
    /// Positions of a split.
    part: usize,
    /// Whether they are a cluster. Where there are clusters, a single one is.
    in_cluster: bool,
}

impl Splits {
    /// The splits of a row of this many visible positions in a step of `rows` rows, each the only one of its sequence if
    /// `is_decode`.
    fn divide(self, visible: usize, rows: usize, is_decode: bool) -> Division {
        let most = if rows <= MAX_SPLIT_ROWS { self.per_step / rows.max(1) } else { 1 };
        let mut splits = splits(visible).min(most.max(1));
        let mut in_cluster = false;
        if let Some(clusters) = self.clusters.filter(|_| is_decode) {
            let size = clusters.size(visible, rows, splits);
            splits = splits.min(size.unwrap_or(splits));
            in_cluster = splits == 1 || size.is_some();
        }
        let part = visible.div_ceil(splits).next_multiple_of(self.block);
        Division { splits: visible.div_ceil(part), part, in_cluster }
    }
}

impl Default for Splits {
    fn default() -> Splits {
        Splits { per_step: MAX_SPLITS * MAX_SPLIT_ROWS, block: 128, clusters: None }
    }
}

/// The words of the step inputs, and the offset of each section in words.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Inputs {
    pub words: Vec<u32>,
    pub rope_tables: Vec<RopeTable>,
    /// The operations that scale rows by their positions, and the offset of their factors.
    position_factors: Vec<(Op, usize)>,
    groups: Vec<Group>,
    splits: Vec<Splits>,
    /// Rows of the bucket.
    rows: usize,
    /// Token of each row, or [`FOLLOWS`] and the output row of the step before whose token it takes.
    pub tokens: usize,
    /// Position of each row.
    pub positions: usize,
    tables: usize,
    /// First visible position and end of the visible ones, per group and row.
    visible: usize,
    /// Row of each output row.
    pub outputs: usize,
    /// First row and number of rows of the sequence of each output row.
    pub pools: usize,
    /// First row and number of rows of each attention tile.
    pub tiles: usize,
    /// Eight words per sequence, if there are recurrent operations: first row, number of rows, whether there is a state,
    /// slots to read and to write, rows before the checkpoint (0 for none) and its slot, 0.
    pub sequences: usize,
    is_recurrent: bool,
    /// The block tables of all sequences and groups.
    pub blocks: usize,
    /// Words for draws, after the blocks of a step.
    room_for_draws: usize,
}

/// The cos/sin table of one set of RoPE parameters: per row and pair, the bits of a cosine and a sine as f32.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RopeTable {
    pub rope: Rope,
    /// Radians per position, for each pair.
    frequencies: Vec<f64>,
    /// Offset in the step inputs.
    pub at: usize,
}

impl Inputs {
    /// Lays out the sections for the bucket of `bound`, with these splits by group of stores.
    pub fn new(bound: &BoundProgram, splits: Vec<Splits>) -> Inputs {
        let bucket = bound.bucket();
        let groups = bound.graph().groups().to_vec();
        let tokens = HEAD + 2 * groups.len();
        let positions = tokens + bucket.rows;
        let tables = positions + bucket.rows;
        let visible = tables + bucket.rows * groups.len();
        let outputs = visible + 2 * bucket.rows * groups.len();
        let pools = outputs + bucket.outputs;
        let tiles = pools + 2 * bucket.outputs;
        let sequences = tiles + 2 * max_tiles(bucket.rows);
        let is_recurrent = bound.graph().values().any(|(_, value)| value.op.is_recurrent());
        let mut end = sequences + if is_recurrent { SEQUENCE * bucket.rows } else { 0 };
        let mut rope_tables = Vec::<RopeTable>::new();
        for (_, value) in bound.graph().values() {
            let Op::Rope { rope, .. } = value.op else { continue };
            if rope_tables.iter().any(|known| known.rope == rope) {
                continue;
            }
            let factors =
                rope.factors_for(bound.model().kv_layout().n_ctx).map(|id| bound.weight(id).vector());
            let frequencies = rope.frequencies(factors.as_deref());
            let words = 2 * frequencies.len() * bucket.rows;
            rope_tables.push(RopeTable { rope, frequencies, at: end });
            end += words;
        }
        let scales = |op: &Op| matches!(op, Op::ScaleByPosition { .. });
        let mut position_factors = Vec::<(Op, usize)>::new();
        for (_, value) in bound.graph().values().filter(|(_, value)| scales(&value.op)) {
            position_factors.push((value.op, end));
            end += bucket.rows;
        }
        let blocks =
            bound.model().kv_layout().blocks.iter().fold(0, |all: usize, blocks| all.saturating_add(*blocks));
        let blocks = bucket.rows.min(MAX_SEQUENCES) * blocks.max(1);
        let words = vec![0; end + blocks];
        Inputs {
            words,
            rope_tables,
            position_factors,
            groups,
            splits,
            rows: bucket.rows,
            tokens,
            positions,
            tables,
            visible,
            outputs,
            pools,
            tiles,
            sequences,
            is_recurrent,
            blocks: end,
            room_for_draws: 0,
        }
    }

    /// The same with room for the draws of `outputs` output rows.
    pub fn with_draws(mut self, outputs: usize) -> Inputs {
        self.room_for_draws = draws::room(outputs);
        self.words.resize(self.words.len() + self.room_for_draws, 0);
        self
    }

    /// What leaves the device of the output rows of `step`: tokens are drawn if there is room.
    pub fn transfer(&self, step: &Step) -> Transfer {
        match step.transfer() {
            Transfer::Drawn if draws::words(step) > self.room_for_draws => step.transfer_undrawn(),
            transfer => transfer,
        }
    }

    /// Index of the word that holds the offset of draws.
    pub fn draws(&self) -> u32 {
        DRAWS as u32
    }

    /// Offsets of positions, of a group's block table offsets, and of blocks.
    pub fn table_offsets(&self, group: usize) -> [u32; 3] {
        [self.positions, self.tables + group * self.rows, self.blocks].map(|at| at as u32)
    }

    /// Offset of the factors of an operation that scales rows by their positions.
    pub fn factors(&self, op: &Op) -> usize {
        let factors = self.position_factors.iter().find(|(scaled, _)| scaled == op);
        factors.expect("every such operation has factors").1
    }

    /// Offset of a group's words in the header: number of splits, and positions per split.
    pub fn split(&self, group: usize) -> u32 {
        (HEAD + 2 * group) as u32
    }

    /// Offset of a group's visible positions: first and end, per row.
    pub fn visible(&self, group: usize) -> u32 {
        (self.visible + 2 * group * self.rows) as u32
    }

    /// Writes the inputs of `step` and sets the splits of `shape` and what its draws need; the rest is set already. Returns the
    /// number of words to upload, or an error if block tables have more blocks than the bucket has room for.
    pub fn fill(&mut self, step: &Step, shape: &mut StepShape) -> Result<usize, Error> {
        let rows = step.rows().len();
        let n_max = step.sequences().iter().map(|sequence| sequence.positions().end).max().unwrap_or(0);
        shape.splits.clear();
        shape.in_clusters.clear();
        let groups = self.groups.iter().zip(&self.splits);
        for ((group, splits), words) in groups.zip(self.words[HEAD..].as_chunks_mut::<2>().0) {
            // Counted from the start of the block of the first visible position.
            let window = group.mask.span().unwrap_or(n_max);
            let visible = n_max.min(window.saturating_add(KV_BLOCK - 1)).max(1);
            let Division { splits, part, in_cluster } = splits.divide(visible, rows, shape.is_decode);
            *words = [splits as u32, part as u32];
            shape.splits.push(splits);
            shape.in_clusters.push(in_cluster);
        }
        self.words[0] = rows as u32;
        self.words[1] = step.outputs().len() as u32;
        for (word, row) in self.words[self.tokens..].iter_mut().zip(step.rows()) {
            *word = match row.input {
                Input::Token(token) => token,
                Input::Ahead(row) => FOLLOWS | row,
                Input::Embedding(_) => unreachable!("the step was refused"),
            };
        }
        for (word, (row, _)) in self.words[self.outputs..].iter_mut().zip(step.outputs()) {
            *word = row as u32;
        }
        let pools = self.words[self.pools..].as_chunks_mut::<2>().0;
        for (words, (row, _)) in pools.iter_mut().zip(step.outputs()) {
            let rows = step.rows_beside(row);
            *words = [rows.start as u32, rows.len() as u32];
        }
        let (mut row, mut block) = (0, 0);
        let mut sequences = self.sequences;
        for sequence in step.sequences() {
            if self.is_recurrent {
                let Slots { read, write, checkpoint } = sequence.slots;
                let (after, slot) = checkpoint.unwrap_or_default();
                let has_state = u32::from(sequence.n_past > 0);
                let words = [row as u32, sequence.len as u32, has_state, read, write, after as u32, slot, 0];
                self.words[sequences..][..SEQUENCE].copy_from_slice(&words);
                sequences += SEQUENCE;
            }
            for (index, position) in sequence.positions().enumerate() {
                self.words[self.positions + row + index] = position as u32;
            }
            for (group, Group { mask }) in self.groups.iter().enumerate() {
                let at = self.visible + 2 * (group * self.rows + row);
                let words = self.words[at..].as_chunks_mut::<2>().0;
                for (words, position) in words.iter_mut().zip(sequence.positions()) {
                    let visible = sequence.visible(*mask, position);
                    *words = [visible.start as u32, visible.end as u32];
                }
            }
            for (group, table) in sequence.tables.iter().enumerate() {
                let free = self.words.len() - self.room_for_draws - self.blocks - block;
                if table.blocks.len() > free {
                    let blocks = table.blocks.len();
                    return Err(Error::Step(format!(
                        "a block table has {blocks} blocks, but there is room for only {free}"
                    )));
                }
                self.words[self.blocks + block..][..table.blocks.len()].copy_from_slice(&table.blocks);
                // Offset of the block of position 0, which may be negative: kernels add with wrap-around.
                let first = (block as u32).wrapping_sub(table.first as u32);
                self.words[self.tables + group * self.rows + row..][..sequence.len].fill(first);
                block += table.blocks.len();
            }
            row += sequence.len;
        }
        if shape.tiles > 0 {
            let (mut row, mut words) =
                (0, self.words[self.tiles..][..2 * shape.tiles].as_chunks_mut::<2>().0);
            for sequence in step.sequences() {
                for done in (0..sequence.len).step_by(FLASH_ROWS) {
                    let rows = FLASH_ROWS.min(sequence.len - done);
                    words[0] = [(row + done) as u32, rows as u32];
                    words = &mut words[1..];
                }
                row += sequence.len;
            }
        }
        for table in &self.rope_tables {
            let pairs = table.frequencies.len();
            let row_chunks = self.words[table.at..].chunks_exact_mut(2 * pairs.max(1));
            for (row, (_, position)) in row_chunks.zip(step.positions()) {
                for (pair, &frequency) in row.as_chunks_mut::<2>().0.iter_mut().zip(&table.frequencies) {
                    *pair = table.rope.cos_sin(position, frequency).map(|value| (value as f32).to_bits());
                }
            }
        }
        for &(op, at) in &self.position_factors {
            let Op::ScaleByPosition { beta, offset, interval, .. } = op else { continue };
            for (word, (_, position)) in self.words[at..].iter_mut().zip(step.positions()) {
                let intervals = (position as f64 + f64::from(offset)) / f64::from(interval);
                *word = ((1.0 + f64::from(beta) * intervals.floor().ln_1p()) as f32).to_bits();
            }
        }
        let end = self.blocks + block;
        shape.draws = Draws::default();
        if shape.transfer != Transfer::Drawn {
            return Ok(end);
        }
        let draws = step.outputs().filter_map(|(_, output)| output.draw());
        let has_greedy = step.outputs().any(|(_, output)| *output == Output::Greedy);
        let best = draws.clone().any(|draw| draw.is_of_best() && !draw.is_largest());
        // Where candidates are found, the best one is the argmax.
        let largest = !best && (has_greedy || draws.clone().any(Draw::is_largest));
        let all = draws.clone().any(|draw| !draw.is_of_best());
        let has_more = |draw: &Draw| draw.penalties.is_some() || draw.biases.len() > MAX_FUSED_BIASES;
        let is_adjusted = draws.clone().any(|draw| if best || all { draw.adjusts() } else { has_more(draw) });
        shape.draws = Draws { is_adjusted, best, largest, all };
        self.words[DRAWS] = end as u32;
        draws::write(&mut self.words, end, step);
        Ok(end + draws::words(step))
    }
}

/// Number of splits for this many positions at most.
fn splits(positions: usize) -> usize {
    positions.div_ceil(SPLIT_POSITIONS).clamp(1, MAX_SPLITS)
}

/// Size in bytes of the partial results of split attention: `v_dim + 2` f32 values per row, head and split.
pub fn partials_bytes(layout: &StoreLayout, rows: usize, heads: usize) -> u64 {
    let capacity = layout.blocks.saturating_mul(KV_BLOCK);
    // The visible positions can start in the middle of a block.
    let window = |span: usize| (capacity + KV_BLOCK).min(span.saturating_add(KV_BLOCK - 1));
    let visible = layout.store.mask.span().map_or(capacity, window);
    (rows.min(MAX_SPLIT_ROWS) * heads * splits(visible) * (layout.store.v_dim + 2) * size_of::<f32>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_cover_all_positions() {
        let on_card = |per_step| Splits { per_step, block: 64, clusters: None };
        let count = |splits: Splits, visible, rows| {
            let Division { splits, part, .. } = splits.divide(visible, rows, true);
            [splits, part]
        };
        assert_eq!(count(Splits::default(), 4097, 1), [33, 128]);
        assert_eq!(count(Splits::default(), 32_768, 8), [64, 512]);
        assert_eq!(count(on_card(49), 32_769, 1), [47, 704]);
        assert_eq!(count(on_card(49), 4097, 8), [6, 704]);
        assert_eq!(count(on_card(49), 4097, 9), [1, 4160]);
        let in_clusters =
            |per_row| Splits { per_step: 396 / per_row, block: 32, clusters: Some(h200(per_row)) };
        for splits in
            [Splits::default(), on_card(0), on_card(5), on_card(400), in_clusters(8), in_clusters(1)]
        {
            for rows in [1, 2, 7, 8, 9, 64] {
                for visible in (1..3000).step_by(37).chain([40_000, 1 << 20]) {
                    for is_decode in [false, true] {
                        let Division { splits: n, part, in_cluster } =
                            splits.divide(visible, rows, is_decode);
                        assert!(
                            n * part >= visible && (n - 1) * part < visible,
                            "{splits:?}, {rows} rows, {visible}"
                        );
                        assert!(n <= MAX_SPLITS && part.is_multiple_of(splits.block));
                        assert!(n == 1 || (rows <= MAX_SPLIT_ROWS && n * rows <= splits.per_step));
                        if let (true, Some(clusters)) = (in_cluster, splits.clusters) {
                            assert!(is_decode && (n == 1 || clusters.active[n] >= rows * clusters.per_row));
                        }
                        assert!(!in_cluster || splits.clusters.is_some());
                    }
                }
            }
        }
    }

    /// Six parts of an H200 with 16 multiprocessors, two with 18, of which each has room for three blocks.
    fn h200(per_row: usize) -> Clusters {
        let active = |size: usize| 6 * (48 / size.max(1)) + 2 * (54 / size.max(1));
        Clusters { active: std::array::from_fn(active), per_row, busy: 132, position_bytes: 256 }
    }

    #[test]
    fn rows_have_clusters_that_run_at_the_same_time() {
        let divide = |per_row, visible, rows, is_decode| {
            let splits = Splits { per_step: 396 / per_row, block: 32, clusters: Some(h200(per_row)) };
            let Division { splits, in_cluster, .. } = splits.divide(visible, rows, is_decode);
            (splits, in_cluster)
        };
        assert_eq!(divide(8, 100, 1, true), (1, true));
        assert_eq!(divide(8, 1000, 1, true), (8, true));
        assert_eq!(divide(8, 32_768, 1, true), (16, true));
        assert_eq!(divide(8, 32_768, 1, false), (49, false), "no single rows");
        assert_eq!(divide(8, 32_768, 7, true), (6, true), "of 7 there is room for 50, not for 56");
        assert_eq!(divide(8, 32_768, 9, true), (1, true));
        assert_eq!(divide(4, 8192, 1, true), (16, true), "68 more blocks would save 66 KiB");
        assert_eq!(divide(4, 32_768, 1, true), (64, false), "264 KiB: more blocks are faster");
        assert_eq!(divide(1, 8192, 1, true), (16, true), "36 more: 88 KiB");
        assert_eq!(divide(1, 32_768, 1, true), (64, false), "384 KiB");
        // Heads of 256 columns, whose blocks fill a multiprocessor.
        let one_each = |size: usize| 6 * (16 / size.max(1)) + 2 * (18 / size.max(1));
        let clusters =
            Clusters { active: std::array::from_fn(one_each), per_row: 4, busy: 132, position_bytes: 1024 };
        let large = Splits { per_step: 132 / 4, block: 32, clusters: Some(clusters) };
        let Division { splits, in_cluster, .. } = large.divide(100_000, 7, true);
        assert_eq!((splits, in_cluster), (4, true), "without clusters there were no more splits");
        let untold = Splits { clusters: Some(Clusters { active: [0; 17], ..h200(8) }), ..Splits::default() };
        assert!(!untold.divide(1000, 1, true).in_cluster);
    }
}
