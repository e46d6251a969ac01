//! What changes from step to step, as one buffer of words: a head, tokens, positions, block tables of rows, output rows,
//! tiles of rows, cosines and sines, pages.

use backend::{BoundProgram, Error, PAGE, Step, StoreLayout};
use graph::{Group, Op, Rope, WeightId};

use crate::launch::{F32, StepShape};
use crate::policy::{self, FLASH_ROWS};

/// Words at the beginning: rows, output rows; for each group of stores, workgroups that share a row's positions, and how
/// many positions each has.
const HEAD: usize = 2;

/// Sequences of a step whose pages there is room for.
const SEQUENCES: usize = 256;

/// Rows of a step whose positions several workgroups may share.
const SPLIT_ROWS: usize = 8;

/// Workgroups that share the positions of a row, at most.
const SPLITS: usize = 64;

/// Positions that a workgroup takes before others help it.
const SPLIT: usize = 128;

/// Positions that attention takes at a time.
const BLOCK: usize = 128;

/// The words of a step's inputs, and where they are.
pub(crate) struct Inputs {
    pub(crate) words: Vec<u32>,
    pub(crate) angles: Vec<Angles>,
    groups: Vec<Group>,
    /// Rows that there is room for.
    rows: usize,
    pub(crate) tokens: usize,
    pub(crate) positions: usize,
    tables: usize,
    pub(crate) outputs: usize,
    pub(crate) tiles: usize,
    pub(crate) pages: usize,
}

/// Cosines and sines of one kind of RoPE.
pub(crate) struct Angles {
    pub(crate) rope: Rope,
    /// Angle of each pair at position 1.
    frequencies: Vec<f64>,
    /// Where they begin in the inputs.
    pub(crate) at: usize,
}

impl Inputs {
    /// Room for what changes from step to step.
    pub(crate) fn new(bound: &BoundProgram) -> Inputs {
        let bucket = bound.bucket();
        let groups = bound.graph().groups().to_vec();
        let tokens = HEAD + 2 * groups.len();
        let positions = tokens + bucket.rows;
        let tables = positions + bucket.rows;
        let outputs = tables + bucket.rows * groups.len();
        let tiles = outputs + bucket.outputs;
        let mut end = tiles + 2 * policy::most_tiles(bucket.rows);
        let mut angles = Vec::<Angles>::new();
        for (_, value) in bound.graph().values() {
            let Op::Rope { rope, .. } = value.op else { continue };
            if angles.iter().any(|known| known.rope == rope) {
                continue;
            }
            let factors = rope.factors.map(|id| vector(bound, id));
            let frequency = |i: usize| {
                let frequency = f64::from(rope.theta).powf(-2.0 * i as f64 / rope.dims as f64);
                let factor = factors.as_ref().map_or(1.0, |factors| f64::from(factors[i]));
                f64::from(rope.scale) * frequency / factor
            };
            let frequencies: Vec<f64> = (0..rope.dims / 2).map(frequency).collect();
            let words = 2 * frequencies.len() * bucket.rows;
            angles.push(Angles { rope, frequencies, at: end });
            end += words;
        }
        let pages = bucket.rows.min(SEQUENCES) * bound.model().pages().max(1);
        let words = vec![0; end + pages];
        Inputs {
            words,
            angles,
            groups,
            rows: bucket.rows,
            tokens,
            positions,
            tables,
            outputs,
            tiles,
            pages: end,
        }
    }

    /// Where there are positions, of rows of a group where their pages begin among pages, and pages.
    pub(crate) fn places_of_rows(&self, group: usize) -> [u32; 3] {
        [self.positions, self.tables + group * self.rows, self.pages].map(|at| at as u32)
    }

    /// Where there is how many workgroups share a row's positions in a group.
    pub(crate) fn split(&self, group: usize) -> u32 {
        (HEAD + 2 * group) as u32
    }

    /// Writes what `step` says, and the rest of its shape; returns how many words there are.
    ///
    /// # Errors
    /// When sequences have more pages than there is room for.
    pub(crate) fn fill(&mut self, step: &Step, shape: &mut StepShape) -> Result<usize, Error> {
        let rows = step.tokens().len();
        let most = step.sequences().iter().map(|sequence| sequence.positions().end).max().unwrap_or(0);
        shape.splits.clear();
        for (group, words) in self.groups.iter().zip(self.words[HEAD..].as_chunks_mut::<2>().0) {
            // A row's positions from the page of the first one on that it sees.
            let seen = group.window.map_or(most, |window| most.min(window.saturating_add(PAGE - 1))).max(1);
            let splits = if rows <= SPLIT_ROWS { splits(seen) } else { 1 };
            let part = seen.div_ceil(splits).next_multiple_of(BLOCK);
            let splits = seen.div_ceil(part);
            *words = [splits as u32, part as u32];
            shape.splits.push(splits);
        }
        self.words[0] = rows as u32;
        self.words[1] = step.outputs().len() as u32;
        self.words[self.tokens..][..rows].copy_from_slice(step.tokens());
        for (word, output) in self.words[self.outputs..].iter_mut().zip(step.outputs()) {
            *word = output.row;
        }
        let (mut row, mut page) = (0, 0);
        for sequence in step.sequences() {
            for (number, position) in sequence.positions().enumerate() {
                self.words[self.positions + row + number] = position as u32;
            }
            for (group, table) in sequence.tables.iter().enumerate() {
                let room = self.words.len() - self.pages - page;
                if table.pages.len() > room {
                    let pages = table.pages.len();
                    return Err(Error::Step(format!("{pages} pages, room for {room} more")));
                }
                self.words[self.pages + page..][..table.pages.len()].copy_from_slice(&table.pages);
                // Where the page of position 0 would be; sums of indices wrap around.
                let first = (page as u32).wrapping_sub(table.first as u32);
                self.words[self.tables + group * self.rows + row..][..sequence.len].fill(first);
                page += table.pages.len();
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
        for angles in &self.angles {
            let pairs = angles.frequencies.len();
            let of_rows = self.words[angles.at..].chunks_exact_mut(2 * pairs.max(1));
            for (of_row, (_, position)) in of_rows.zip(step.rows()) {
                for (pair, frequency) in of_row.as_chunks_mut::<2>().0.iter_mut().zip(&angles.frequencies) {
                    let (sine, cosine) = (position as f64 * frequency).sin_cos();
                    *pair = [(cosine as f32).to_bits(), (sine as f32).to_bits()];
                }
            }
        }
        Ok(self.pages + page)
    }
}

/// Workgroups that share so many positions of a row.
fn splits(positions: usize) -> usize {
    positions.div_ceil(SPLIT).clamp(1, SPLITS)
}

/// Bytes of what workgroups find that share the positions of rows of so many heads.
pub(crate) fn bytes_of_parts(layout: &StoreLayout, rows: usize, heads: usize) -> u64 {
    let all = layout.pages.saturating_mul(PAGE);
    // Of pages that were given back, a window may begin in the middle.
    let seen = layout.store.window.map_or(all, |window| (all + PAGE).min(window.saturating_add(PAGE - 1)));
    (rows.min(SPLIT_ROWS) * heads * splits(seen) * (layout.store.v_dim + 2) * F32) as u64
}

/// A weight of one row.
pub(crate) fn vector(bound: &BoundProgram, id: WeightId) -> Vec<f32> {
    let weight = bound.weight(id);
    let mut values = vec![0.0; weight.cols];
    weight.format.dequantize(&weight.bytes, &mut values);
    values
}
