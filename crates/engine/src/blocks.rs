//! The block manager: free pages of each group of stores, free slots, and the caches of idle sequences.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use backend::{BlockTable, PAGE, Slots, first_needed_page};
use graph::Group;

use crate::ids::SequenceId;
use crate::slots::{SlotPool, States};

/// The cache of one sequence: its tokens, a block table per group, and the states of recurrent layers.
///
/// Tables are shared with the steps that run on them. They are modified between steps, when they normally have one
/// owner and need no copy.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) tokens: Vec<u32>,
    pub(crate) tables: Arc<[BlockTable]>,
    pub(crate) states: States,
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
    pub(crate) slots: SlotPool,
    /// Caches of sequences that no request uses, retained for a later one. Least recently used first.
    pub(crate) idle: VecDeque<(SequenceId, Cache)>,
}

impl BlockManager {
    pub(crate) fn new(groups: &[(Group, usize)], slots: usize) -> BlockManager {
        let pool = |&(group, pages): &(Group, usize)| {
            let end = u32::try_from(pages).unwrap_or(u32::MAX);
            Pool { group, unused: 0..end, free: Vec::new(), idle: 0 }
        };
        let pools = groups.iter().map(pool).collect();
        BlockManager { pools, slots: SlotPool::new(slots), idle: VecDeque::new() }
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

    /// The slots of a step of a running request. There are [`backend::SLOTS`] for each, so that evicting idle sequences suffices.
    pub(crate) fn slots(&mut self, states: &mut States, rows: Range<usize>, checkpoint: usize) -> Slots {
        if !self.slots.is_used() {
            return Slots::default();
        }
        let is_inside = rows.start < checkpoint && checkpoint < rows.end;
        let needed = 1 + usize::from(is_inside);
        self.slots.trim(states, rows.start, needed);
        while self.slots.free() < needed && !self.idle.is_empty() {
            self.release_idle(0);
        }
        self.slots.step(states, rows, checkpoint)
    }

    /// Releases the pages and states of a sequence.
    pub(crate) fn release(&mut self, tables: &mut Arc<[BlockTable]>, states: &mut States) {
        self.slots.clear(states);
        for (pool, table) in self.pools.iter_mut().zip(Arc::make_mut(tables)) {
            pool.free.append(&mut table.pages);
            table.first = 0;
        }
    }

    /// Retains `cache` for a later request on `sequence`, replacing an earlier one.
    pub(crate) fn retain(&mut self, sequence: SequenceId, mut cache: Cache) {
        self.forget(sequence);
        self.trim(&mut cache.tables, cache.tokens.len());
        self.slots.trim(&mut cache.states, cache.tokens.len(), 0);
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
    /// The windows before the next position must be complete; otherwise nothing is reused. The state of recurrent layers
    /// must be stored; otherwise an earlier position is taken.
    pub(crate) fn reuse(&mut self, sequence: SequenceId, tokens: &[u32], max: usize) -> Cache {
        let retained = self.position(sequence).and_then(|index| self.take_idle(index));
        let Some(mut cache) = retained else { return self.empty() };
        let common = cache.tokens.iter().zip(tokens).take(max).take_while(|(a, b)| a == b).count();
        let common = if self.slots.is_used() { cache.states.last(common) } else { common };
        let has_window = |(pool, table): (&Pool, &BlockTable)| {
            table.positions().start <= pool.group.mask.first_visible(common)
        };
        let common = if self.pools.iter().zip(cache.tables.iter()).all(has_window) { common } else { 0 };
        cache.tokens.truncate(common);
        self.truncate(&mut cache);
        cache
    }

    pub(crate) fn empty(&self) -> Cache {
        Cache { tokens: Vec::new(), tables: self.no_tables(), states: States::default() }
    }

    fn position(&self, sequence: SequenceId) -> Option<usize> {
        self.idle.iter().position(|(idle, _)| *idle == sequence)
    }

    /// Releases the pages and states past the tokens of `cache`.
    fn truncate(&mut self, cache: &mut Cache) {
        if cache.tokens.is_empty() {
            return self.release(&mut cache.tables, &mut cache.states);
        }
        self.slots.rewind(&mut cache.states, cache.tokens.len());
        let end = cache.tokens.len().div_ceil(PAGE);
        for (pool, table) in self.pools.iter_mut().zip(Arc::make_mut(&mut cache.tables)) {
            let needed = end.saturating_sub(table.first).min(table.pages.len());
            pool.free.extend(table.pages.drain(needed..));
        }
    }

    fn release_idle(&mut self, index: usize) {
        if let Some(mut cache) = self.take_idle(index) {
            self.release(&mut cache.tables, &mut cache.states);
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
