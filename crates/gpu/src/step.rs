//! What the commands of a step depend on, and what a launch costs.

use backend::{Bucket, MAX_CANDIDATES, Sequence, Step, Transfer};
use graph::{Mask, Rows};

use crate::tiles::tiles;

/// Everything that the commands of a step depend on. Steps of equal shape can reuse recorded commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct StepShape {
    pub rows: usize,
    pub outputs: usize,
    pub sequences: usize,
    /// Number of splits, by group of stores.
    pub splits: Vec<usize>,
    /// Whether those of a row are a cluster of blocks, by group of stores.
    pub in_clusters: Vec<bool>,
    /// Attention tiles; 0 if sequences have too few rows each.
    pub tiles: usize,
    /// Whether every sequence has one row.
    pub is_decode: bool,
    /// What is read back of the output rows.
    pub transfer: Transfer,
    pub draws: Draws,
}

/// How the tokens of a step are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// Whether biases or penalties change logits before tokens are drawn. Otherwise there are at most a few biases, in a step that
    /// draws only largest logits, and finding these adds them.
    pub is_adjusted: bool,
    /// Whether tokens are drawn from the best candidates of a row.
    pub best: bool,
    /// Whether some row's token is its argmax and `best` is false. If candidates are found, the best one is the argmax.
    pub largest: bool,
    /// Whether tokens are drawn from the whole vocabulary.
    pub all: bool,
}

impl StepShape {
    /// The shape of `step` where this leaves the device; [`Inputs::fill`](crate::Inputs::fill) sets splits and draws.
    pub fn new(step: &Step, transfer: Transfer) -> StepShape {
        StepShape {
            rows: step.rows().len(),
            outputs: step.outputs().len(),
            sequences: step.sequences().len(),
            tiles: tiles(step.sequences().iter().map(|sequence| sequence.len)),
            is_decode: step.sequences().iter().all(|sequence| sequence.len == 1),
            transfer,
            ..StepShape::default()
        }
    }

    /// Number of these rows.
    pub fn rows(&self, rows: Rows) -> usize {
        Bucket { rows: self.rows, outputs: self.outputs }.count(rows)
    }

    /// Words of what the device has chosen of all output rows: tokens, or ids and logits of candidates.
    pub fn chosen(&self) -> usize {
        self.outputs * chosen_words(self.transfer)
    }
}

/// Words of what the device chooses of an output row.
pub fn chosen_words(transfer: Transfer) -> usize {
    match transfer {
        Transfer::Tokens | Transfer::Drawn => 1,
        Transfer::Candidates => 2 * MAX_CANDIDATES,
        Transfer::Logits => 0,
    }
}

/// Label and minimum cost of a launch.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Cost {
    pub what: String,
    /// Bytes that every step moves, such as those of weights.
    pub bytes: u64,
    pub row_bytes: u64,
    pub row_multiply_adds: u64,
    /// Per position of each sequence.
    pub position_bytes: u64,
    /// Per row and visible position.
    pub pair_multiply_adds: u64,
    /// The positions that a row sees.
    pub mask: Mask,
}

impl Cost {
    /// Of `bytes` per row.
    pub fn row(what: &str, bytes: usize) -> Cost {
        Cost { what: what.to_owned(), row_bytes: bytes as u64, ..Cost::default() }
    }

    /// Bytes and multiply-adds for `rows` rows of `step`.
    pub fn of(&self, step: &Step, rows: usize) -> (u64, u64) {
        let visible = |sequence: &Sequence, position| sequence.visible(self.mask, position);
        let positions = step.sequences().iter().map(|sequence| {
            let end = sequence.positions().end;
            (end - visible(sequence, sequence.n_past).start) as u64
        });
        let positions: u64 = positions.sum();
        let pairs: u64 = match self.pair_multiply_adds {
            0 => 0,
            _ => step.positions().map(|(sequence, position)| visible(sequence, position).len() as u64).sum(),
        };
        let bytes = self.bytes + self.row_bytes * rows as u64 + self.position_bytes * positions;
        (bytes, self.row_multiply_adds * rows as u64 + self.pair_multiply_adds * pairs)
    }
}
