//! KV stores, the masks of attention over them, and the groups that share a block table.

use std::fmt;
use std::ops::Range;

/// The positions of its sequence that a row sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mask {
    /// All positions up to the row's own.
    #[default]
    Causal,
    /// The last `n` positions up to the row's own: a sliding window (Beltagy et al. 2020).
    Window(usize),
    /// The positions up to the row's own in its chunk; chunks have `n` positions, counted from 0 (Meta 2025, Llama 4).
    Chunk(usize),
    /// All positions of the sequence. All rows of a sequence are in one step.
    Full,
    /// The positions up to `n / 2` before or after the row's own. All rows of a sequence are in one step.
    Around(usize),
}

impl Mask {
    /// The positions that the row at `position` sees in a sequence that ends at `end` after the step.
    pub fn visible(self, position: usize, end: usize) -> Range<usize> {
        let first = self.first_visible(position);
        match self {
            Mask::Causal | Mask::Window(_) | Mask::Chunk(_) => first..position + 1,
            Mask::Full => first..end,
            Mask::Around(n) => first..end.min(position.saturating_add(n / 2).saturating_add(1)),
        }
    }

    /// The first position that the row at `position` sees; never less for a later row.
    pub fn first_visible(self, position: usize) -> usize {
        match self {
            Mask::Causal | Mask::Full => 0,
            Mask::Window(n) => (position + 1).saturating_sub(n),
            Mask::Chunk(n) => position / n * n,
            Mask::Around(n) => position.saturating_sub(n / 2),
        }
    }

    /// Whether no row sees a later one, so that a sequence can be computed in several steps.
    pub fn is_causal(self) -> bool {
        match self {
            Mask::Causal | Mask::Window(_) | Mask::Chunk(_) => true,
            Mask::Full | Mask::Around(_) => false,
        }
    }

    /// The most positions that a row sees, if later steps need only these: blocks before them are freed.
    pub fn span(self) -> Option<usize> {
        match self {
            Mask::Window(n) | Mask::Chunk(n) => Some(n),
            Mask::Causal | Mask::Full | Mask::Around(_) => None,
        }
    }

    /// The same mask of size `n`, or `None` if it has no size.
    pub fn with_size(self, n: usize) -> Option<Mask> {
        match self {
            Mask::Window(_) => Some(Mask::Window(n)),
            Mask::Chunk(_) => Some(Mask::Chunk(n)),
            Mask::Around(_) => Some(Mask::Around(n)),
            Mask::Causal | Mask::Full => None,
        }
    }

    /// The size, if it has one.
    pub fn size(self) -> Option<usize> {
        match self {
            Mask::Window(n) | Mask::Chunk(n) | Mask::Around(n) => Some(n),
            Mask::Causal | Mask::Full => None,
        }
    }
}

impl fmt::Display for Mask {
    /// The visible positions, such as `a window of 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mask::Causal => f.write_str("all positions up to their own"),
            Mask::Window(n) => write!(f, "a window of {n}"),
            Mask::Chunk(n) => write!(f, "chunks of {n}"),
            Mask::Full => f.write_str("all positions"),
            Mask::Around(n) => write!(f, "{} positions on both sides", n / 2),
        }
    }
}

/// A KV store: the keys and values of one attention layer for every cached position of every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// KV heads.
    pub heads: usize,
    /// Columns of a key.
    pub k_dim: usize,
    /// Columns of a value.
    pub v_dim: usize,
    /// The visible positions. Blocks that no later row sees are freed.
    pub mask: Mask,
}

/// Stores with the same mask. They share a block table; a block holds the same positions in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The mask of its stores.
    pub mask: Mask,
}
