//! Merging adjacent symbols, best pair first: the loop of SentencePiece and BPE.
//!
//! Like llama.cpp's tokenizers (`llm_tokenizer_spm`, `llm_tokenizer_bpe`), symbols form a linked list and candidate pairs
//! a priority queue. A queued pair whose symbols have changed since is recognised by its length and dropped, so n symbols
//! take O(n log n).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A range of text and its current id, which the caller interprets.
#[derive(Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) id: u32,
    start: u32,
    /// Equal to `start` if the symbol was merged into the previous one.
    end: u32,
    prev: u32,
    next: u32,
}

impl Symbol {
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

pub(crate) fn both(left: &Symbol, right: &Symbol) -> Range<usize> {
    left.start as usize..right.end as usize
}

/// Maximum length of a word in bytes. Longer words are cut, unlike in llama.cpp, to bound memory: about 40 bytes per
/// byte. Tests of this crate cut early.
pub(crate) const MAX_WORD: usize = if cfg!(test) { 7 } else { 16 << 20 };

/// A candidate pair. The order of fields is the order of merging: lowest rank, then leftmost.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    right: u32,
    /// Length of both symbols in bytes when queued.
    len: u32,
    id: u32,
}

const NONE: u32 = u32::MAX;

/// Buffers of the merge loop, reused between words.
#[derive(Default)]
pub(crate) struct Merger {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Candidate>>,
}

impl Merger {
    /// Appends a symbol from the end of the last one to byte `end`, at most [`MAX_WORD`].
    pub(crate) fn push(&mut self, id: u32, end: usize) {
        let (index, end) = (self.symbols.len() as u32, end as u32);
        let (prev, start) = match self.symbols.last_mut() {
            Some(last) => {
                last.next = index;
                (index - 1, last.end)
            }
            None => (NONE, 0),
        };
        self.symbols.push(Symbol { id, start, end, prev, next: NONE });
    }

    /// Merges until `join` finds no pair, then calls `emit` with the remaining symbols in order and clears the merger.
    ///
    /// `join` returns the rank and id of a merge; the lowest rank merges first.
    pub(crate) fn merge(
        &mut self,
        join: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>,
        mut emit: impl FnMut(&Symbol),
    ) {
        for right in 1..self.symbols.len() as u32 {
            self.consider(right - 1, right, &join);
        }
        while let Some(Reverse(best)) = self.queue.pop() {
            let (left, right) = (*self.at(best.left), *self.at(best.right));
            let merged_away = |symbol: Symbol| symbol.start == symbol.end;
            if merged_away(left) || merged_away(right) || right.end - left.start != best.len {
                continue;
            }
            *self.at(best.left) = Symbol { id: best.id, end: right.end, next: right.next, ..left };
            self.at(best.right).end = right.start;
            if right.next != NONE {
                self.at(right.next).prev = best.left;
                self.consider(best.left, right.next, &join);
            }
            if left.prev != NONE {
                self.consider(left.prev, best.left, &join);
            }
        }
        self.symbols.drain(..).filter(|symbol| symbol.start != symbol.end).for_each(|symbol| emit(&symbol));
    }

    fn at(&mut self, index: u32) -> &mut Symbol {
        &mut self.symbols[index as usize]
    }

    /// Queues the adjacent symbols `left` and `right` if they can merge.
    fn consider(&mut self, left: u32, right: u32, join: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
        let (l, r) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if let Some((rank, id)) = join(l, r) {
            let len = r.end - l.start;
            self.queue.push(Reverse(Candidate { rank, left, right, len, id }));
        }
    }
}
