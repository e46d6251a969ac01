//! The block manager: free pages of each group of stores, and the caches of idle sequences.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use backend::{BlockTable, PAGE, first_needed_page};
use graph::Group;

use crate::ids::SequenceId;

/// The KV cache of one sequence: its tokens, and a block table per group.
///
/// Tables are shared with the steps that run on them. They are modified between steps, when they normally have one
/// owner and need no copy.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) tokens: Vec<u32>,
    pub(crate) tables: Arc<[BlockTable]>,
}

#[derive(Debug)]
pub(crate) struct Pool {
    group: Group,
    /// Pages never used so far. As a range, an oversized pool costs nothing.
    unused: Range<u32>,
    free: Vec<u32>,
    /// Pages of idle sequences, which can be evicted.
    idle: usize,
}

impl Pool {
    pub(crate) fn free(&self) -> usize {
        self.free.len() + self.unused.len()
    }

    fn take(&mut self, pages: usize) -> impl Iterator<Item = u32> {
        (0..pages).filter_map(|_| self.free.pop().or_else(|| self.unused.next()))
    }
}

/// Positions that a sequence needs pages for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// End of the positions, in groups without a window.
    pub(crate) all: usize,
    /// End of the positions in groups with a window, after the next step: older pages are released in between.
    pub(crate) next: usize,
}

/// The pages that no running request has. Free pages are used first; then idle sequences are evicted, least recently
/// used first.
#[derive(Debug)]
pub(crate) struct BlockManager {
    pub(crate) pools: Vec<Pool>,
    /// Caches of sequences that no request uses, retained for a later one. Least recently used first.
    pub(crate) idle: VecDeque<(SequenceId, Cache)>,
}

impl BlockManager {
    pub(crate) fn new(groups: &[(Group, usize)]) -> BlockManager {
        let pool = |&(group, pages): &(Group, usize)| {
            let end = u32::try_from(pages).unwrap_or(u32::MAX);
            Pool { group, unused: 0..end, free: Vec::new(), idle: 0 }
        };
        BlockManager { pools: groups.iter().map(pool).collect(), idle: VecDeque::new() }
    }

    pub(crate) fn no_tables(&self) -> Arc<[BlockTable]> {
        vec![BlockTable::default(); self.pools.len()].into()
    }

    /// Extends `tables` to cover `demand`. Returns false and changes nothing if a group would need pages of running
    /// requests.
    pub(crate) fn grow(&mut self, tables: &mut Arc<[BlockTable]>, demand: Demand) -> bool {
        let missing = |pool: &Pool, table: &BlockTable| {
            let positions = if pool.group.mask.span().is_some() { demand.next } else { demand.all };
            positions.div_ceil(PAGE).saturating_sub(table.first + table.pages.len())
        };
        let mut are_missing = false;
        for (pool, table) in self.pools.iter().zip(tables.iter()) {
            let missing = missing(pool, table);
            if missing > pool.free() + pool.idle {
                return false;
            }
            are_missing |= missing > 0;
        }
        if !are_missing {
            return true;
        }
        for (i, table) in Arc::make_mut(tables).iter_mut().enumerate() {
            let missing = missing(&self.pools[i], table);
            while self.pools[i].free() < missing {
                self.release_idle(0);
            }
            table.pages.extend(self.pools[i].take(missing));
        }
        true
    }

    /// Releases the pages before the windows of a sequence of `cached` positions.
    pub(crate) fn trim(&mut self, tables: &mut Arc<[BlockTable]>, cached: usize) {
        for (i, pool) in self.pools.iter_mut().enumerate() {
            let expired = first_needed_page(pool.group, cached).saturating_sub(tables[i].first);
            let expired = expired.min(tables[i].pages.len());
            if expired > 0 {
                let table = &mut Arc::make_mut(tables)[i];
                pool.free.extend(table.pages.drain(..expired));
                table.first += expired;
            }
        }
    }

    pub(crate) fn release(&mut self, tables: &mut Arc<[BlockTable]>) {
        for (pool, table) in self.pools.iter_mut().zip(Arc::make_mut(tables)) {
            pool.free.append(&mut table.pages);
            table.first = 0;
        }
    }

    /// Retains `cache` for a later request on `sequence`, replacing an earlier one.
    pub(crate) fn retain(&mut self, sequence: SequenceId, mut cache: Cache) {
        self.forget(sequence);
        self.trim(&mut cache.tables, cache.tokens.len());
        self.truncate(&mut cache);
        if cache.tokens.is_empty() {
            return;
        }
        for (pool, table) in self.pools.iter_mut().zip(cache.tables.iter()) {
            pool.idle += table.pages.len();
        }
        self.idle.push_back((sequence, cache));
    }

    pub(crate) fn forget(&mut self, sequence: SequenceId) {
        if let Some(index) = self.position(sequence) {
            self.release_idle(index);
        }
    }

    /// The longest prefix of `tokens`, up to `max`, that is retained for `sequence` and usable. Releases the rest.
    ///
    /// The windows before the next position must be complete; otherwise nothing is reused.
    pub(crate) fn reuse(&mut self, sequence: SequenceId, tokens: &[u32], max: usize) -> Cache {
        let retained = self.position(sequence).and_then(|index| self.take_idle(index));
        let Some(mut cache) = retained else { return self.empty() };
        let common = cache.tokens.iter().zip(tokens).take(max).take_while(|(a, b)| a == b).count();
        let has_window = |(pool, table): (&Pool, &BlockTable)| {
            table.positions().start <= pool.group.mask.first_visible(common)
        };
        let common = if self.pools.iter().zip(cache.tables.iter()).all(has_window) { common } else { 0 };
        cache.tokens.truncate(common);
        self.truncate(&mut cache);
        cache
    }

    pub(crate) fn empty(&self) -> Cache {
        Cache { tokens: Vec::new(), tables: self.no_tables() }
    }

    fn position(&self, sequence: SequenceId) -> Option<usize> {
        self.idle.iter().position(|(idle, _)| *idle == sequence)
    }

    /// Releases the pages past the tokens of `cache`.
    fn truncate(&mut self, cache: &mut Cache) {
        if cache.tokens.is_empty() {
            return self.release(&mut cache.tables);
        }
        let end = cache.tokens.len().div_ceil(PAGE);
        for (pool, table) in self.pools.iter_mut().zip(Arc::make_mut(&mut cache.tables)) {
            let needed = end.saturating_sub(table.first).min(table.pages.len());
            pool.free.extend(table.pages.drain(needed..));
        }
    }

    fn release_idle(&mut self, index: usize) {
        if let Some(mut cache) = self.take_idle(index) {
            self.release(&mut cache.tables);
        }
    }

    fn take_idle(&mut self, index: usize) -> Option<Cache> {
        let (_, cache) = self.idle.remove(index)?;
        for (pool, table) in self.pools.iter_mut().zip(cache.tables.iter()) {
            pool.idle -= table.pages.len();
        }
        Some(cache)
    }
}
