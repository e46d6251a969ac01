//! Pages of the KV cache: which are free, and which hold a sequence.

use std::ops::Range;

use backend::PAGE;

use crate::scheduler::SequenceId;

/// The tokens of one sequence that the KV cache holds, and the pages they lie in.
///
/// Position `p` holds `tokens[p]` and lies in `pages[p / PAGE]`.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) tokens: Vec<u32>,
    pub(crate) pages: Vec<u32>,
}

/// A sequence that no request uses, kept for a later one.
#[derive(Debug)]
struct Idle {
    sequence: SequenceId,
    cache: Cache,
}

/// All pages: free ones, and those of idle sequences, which are taken back least recently used first.
/// The pages of running requests are with the requests.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Pages that were never used. A range, so that a cache that turns out too large costs nothing.
    unused: Range<u32>,
    /// Pages that were used and hold nothing now.
    free: Vec<u32>,
    idle: Vec<Idle>,
}

impl Pool {
    pub(crate) fn new(pages: usize) -> Pool {
        let end = u32::try_from(pages).unwrap_or(u32::MAX);
        Pool { unused: 0..end, free: Vec::new(), idle: Vec::new() }
    }

    /// Pages that can be had without taking any from a running request.
    pub(crate) fn available(&self) -> usize {
        self.free() + self.idle.iter().map(|idle| idle.cache.pages.len()).sum::<usize>()
    }

    /// Pages that hold nothing.
    pub(crate) fn free(&self) -> usize {
        self.free.len() + self.unused.len()
    }

    /// Lengthens `pages` until they hold `positions`; false, and nothing changed, when too few can be had.
    pub(crate) fn grow(&mut self, pages: &mut Vec<u32>, positions: usize) -> bool {
        let missing = positions.div_ceil(PAGE).saturating_sub(pages.len());
        if missing > self.available() {
            return false;
        }
        while self.free() < missing {
            let oldest = self.idle.remove(0);
            self.free.extend(oldest.cache.pages);
        }
        pages.extend((0..missing).filter_map(|_| self.free.pop().or_else(|| self.unused.next())));
        true
    }

    /// Takes `pages` back.
    pub(crate) fn release(&mut self, pages: impl IntoIterator<Item = u32>) {
        self.free.extend(pages);
    }

    /// Keeps `cache` for a later request on `sequence`, in place of what was kept for it before.
    pub(crate) fn keep(&mut self, sequence: SequenceId, mut cache: Cache) {
        self.forget(sequence);
        let needed = cache.tokens.len().div_ceil(PAGE).min(cache.pages.len());
        self.release(cache.pages.drain(needed..));
        if !cache.pages.is_empty() {
            self.idle.push(Idle { sequence, cache });
        }
    }

    /// Frees what was kept for `sequence`.
    pub(crate) fn forget(&mut self, sequence: SequenceId) {
        if let Some(cache) = self.remove(sequence) {
            self.release(cache.pages);
        }
    }

    /// The longest beginning of `tokens` that was kept for `sequence`, but not all of them: one must
    /// be run to get logits. The rest of what was kept is freed.
    pub(crate) fn reuse(&mut self, sequence: SequenceId, tokens: &[u32]) -> Cache {
        let Some(mut cache) = self.remove(sequence) else { return Cache::default() };
        let wanted = &tokens[..tokens.len().saturating_sub(1)];
        let common = cache.tokens.iter().zip(wanted).take_while(|(a, b)| a == b).count();
        cache.tokens.truncate(common);
        self.release(cache.pages.drain(common.div_ceil(PAGE)..));
        cache
    }

    /// How many tokens are kept for `sequence`.
    pub(crate) fn kept(&self, sequence: SequenceId) -> usize {
        self.idle.iter().find(|idle| idle.sequence == sequence).map_or(0, |idle| idle.cache.tokens.len())
    }

    /// Pages of each idle sequence, for checks.
    pub(crate) fn idle(&self) -> impl Iterator<Item = (SequenceId, &Cache)> {
        self.idle.iter().map(|idle| (idle.sequence, &idle.cache))
    }

    fn remove(&mut self, sequence: SequenceId) -> Option<Cache> {
        let at = self.idle.iter().position(|idle| idle.sequence == sequence)?;
        Some(self.idle.remove(at).cache)
    }
}
