//! The block manager: pages of each group of stores, those that are free and those of idle sequences.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use backend::{BlockTable, PAGE, first_needed_page};
use graph::Group;

use crate::ids::SequenceId;

/// What the stores hold of one sequence: its tokens, and a block table for each group.
///
/// Tables are shared with the steps that run on them. They are changed between steps, so that as a rule nobody else
/// has them then and nothing is copied.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) tokens: Vec<u32>,
    pub(crate) tables: Arc<[BlockTable]>,
}

/// A sequence that no request uses, kept for a later one.
#[derive(Debug)]
struct Idle {
    sequence: SequenceId,
    cache: Cache,
}

/// The pages of one group.
#[derive(Debug)]
struct Pool {
    group: Group,
    /// Pages that were never used. A range, so that a pool that turns out too large costs nothing.
    unused: Range<u32>,
    /// Pages that were used and hold nothing now.
    free: Vec<u32>,
    /// Pages of idle sequences.
    idle: usize,
}

impl Pool {
    fn free(&self) -> usize {
        self.free.len() + self.unused.len()
    }

    fn take(&mut self, pages: usize) -> impl Iterator<Item = u32> {
        (0..pages).filter_map(|_| self.free.pop().or_else(|| self.unused.next()))
    }
}

/// The room that a sequence asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Positions from 0 on, in groups without a window.
    pub(crate) all: usize,
    /// The same in groups with one: no more than the next step writes, because earlier positions make room for later
    /// ones.
    pub(crate) next: usize,
}

/// All pages: free ones, and those of idle sequences, which are taken back least recently used first.
/// The pages of running requests are with the requests.
#[derive(Debug)]
pub(crate) struct BlockManager {
    pools: Vec<Pool>,
    /// Least recently used first.
    idle: BTreeMap<u64, Idle>,
    /// The key in `idle`.
    by_sequence: HashMap<SequenceId, u64>,
    next_key: u64,
}

impl BlockManager {
    /// The groups, with the pages of each.
    pub(crate) fn new(groups: &[(Group, usize)]) -> BlockManager {
        let pool = |&(group, pages): &(Group, usize)| {
            let end = u32::try_from(pages).unwrap_or(u32::MAX);
            Pool { group, unused: 0..end, free: Vec::new(), idle: 0 }
        };
        let pools = groups.iter().map(pool).collect();
        BlockManager { pools, idle: BTreeMap::new(), by_sequence: HashMap::new(), next_key: 0 }
    }

    /// The tables of a sequence without pages.
    pub(crate) fn no_tables(&self) -> Arc<[BlockTable]> {
        vec![BlockTable::default(); self.pools.len()].into()
    }

    /// The pages of each group that hold nothing.
    pub(crate) fn free(&self) -> impl Iterator<Item = usize> {
        self.pools.iter().map(Pool::free)
    }

    /// Lengthens `tables` until they have `room`; false, and nothing changed, when too few pages of a group can be had
    /// without taking any from a running request.
    pub(crate) fn grow(&mut self, tables: &mut Arc<[BlockTable]>, room: Room) -> bool {
        let missing = |pool: &Pool, table: &BlockTable| {
            let positions = if pool.group.window.is_some() { room.next } else { room.all };
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
                self.evict();
            }
            table.pages.extend(self.pools[i].take(missing));
        }
        true
    }

    /// Takes back the pages that fell out of the windows of a sequence of `cached` positions.
    pub(crate) fn trim(&mut self, tables: &mut Arc<[BlockTable]>, cached: usize) {
        for (i, pool) in self.pools.iter_mut().enumerate() {
            let fallen = first_needed_page(pool.group, cached).saturating_sub(tables[i].first);
            let fallen = fallen.min(tables[i].pages.len());
            if fallen > 0 {
                let table = &mut Arc::make_mut(tables)[i];
                pool.free.extend(table.pages.drain(..fallen));
                table.first += fallen;
            }
        }
    }

    /// Takes all pages of a sequence back.
    pub(crate) fn release(&mut self, tables: &mut Arc<[BlockTable]>) {
        for (pool, table) in self.pools.iter_mut().zip(Arc::make_mut(tables)) {
            pool.free.append(&mut table.pages);
            table.first = 0;
        }
    }

    /// Keeps `cache` for a later request on `sequence`, in place of what was kept for it before.
    pub(crate) fn keep(&mut self, sequence: SequenceId, mut cache: Cache) {
        self.forget(sequence);
        self.trim(&mut cache.tables, cache.tokens.len());
        self.truncate(&mut cache);
        if cache.tokens.is_empty() {
            return;
        }
        for (pool, table) in self.pools.iter_mut().zip(cache.tables.iter()) {
            pool.idle += table.pages.len();
        }
        self.by_sequence.insert(sequence, self.next_key);
        self.idle.insert(self.next_key, Idle { sequence, cache });
        self.next_key += 1;
    }

    /// Frees what was kept for `sequence`.
    pub(crate) fn forget(&mut self, sequence: SequenceId) {
        if let Some(key) = self.by_sequence.get(&sequence) {
            self.free_idle(*key);
        }
    }

    /// The longest beginning of `tokens` that was kept for `sequence` and can be gone on with, at most `most` tokens. The
    /// rest of what was kept is freed.
    ///
    /// What follows needs the windows before it: where they are gone, nothing is reused.
    pub(crate) fn reuse(&mut self, sequence: SequenceId, tokens: &[u32], most: usize) -> Cache {
        let kept = self.by_sequence.get(&sequence).copied().and_then(|key| self.take_idle(key));
        let Some(mut cache) = kept else { return self.empty() };
        let common = cache.tokens.iter().zip(tokens).take(most).take_while(|(a, b)| a == b).count();
        let is_there =
            |(pool, table): (&Pool, &BlockTable)| table.positions().start <= pool.group.first_visible(common);
        let common = if self.pools.iter().zip(cache.tables.iter()).all(is_there) { common } else { 0 };
        cache.tokens.truncate(common);
        self.truncate(&mut cache);
        cache
    }

    /// A cache of nothing.
    pub(crate) fn empty(&self) -> Cache {
        Cache { tokens: Vec::new(), tables: self.no_tables() }
    }

    /// How many tokens are kept for `sequence`.
    pub(crate) fn kept(&self, sequence: SequenceId) -> usize {
        let idle = self.by_sequence.get(&sequence).and_then(|key| self.idle.get(key));
        idle.map_or(0, |idle| idle.cache.tokens.len())
    }

    /// The block tables of each idle sequence, for checks.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &[BlockTable]> {
        self.idle.values().map(|idle| &*idle.cache.tables)
    }

    /// Takes back the pages behind the tokens of `cache`; all of them where there are no tokens.
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

    /// Frees the least recently used idle sequence.
    fn evict(&mut self) {
        if let Some(key) = self.idle.keys().next() {
            self.free_idle(*key);
        }
    }

    fn free_idle(&mut self, key: u64) {
        if let Some(mut cache) = self.take_idle(key) {
            self.release(&mut cache.tables);
        }
    }

    fn take_idle(&mut self, key: u64) -> Option<Cache> {
        let Idle { sequence, cache } = self.idle.remove(&key)?;
        self.by_sequence.remove(&sequence);
        for (pool, table) in self.pools.iter_mut().zip(cache.tables.iter()) {
            pool.idle -= table.pages.len();
        }
        Some(cache)
    }
}
