//! The block manager: blocks of each group of stores and slots for states, shared by requests with a common prefix.

use std::sync::Arc;

use backend::{BlockTable, KV_BLOCK, Slots, first_needed_block};
use graph::Group;

use crate::pool::Pool;
use crate::prefix::Prefixes;
use crate::slots::States;

/// What a request has in the cache: positions, a block table per group, and the states of recurrent layers.
///
/// Tables are shared with the steps that run on them. They are modified between steps, when they normally have one
/// owner and need no copy.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) positions: usize,
    pub(crate) tables: Arc<[BlockTable]>,
    pub(crate) states: States,
    /// Full blocks that other requests can find.
    published: usize,
}

impl Cache {
    /// The last block with cached positions, if it is partly filled.
    fn partial_block(&self, table: &BlockTable) -> Option<u32> {
        let index = (self.positions / KV_BLOCK).checked_sub(table.first)?;
        table.blocks.get(index).copied().filter(|_| !self.positions.is_multiple_of(KV_BLOCK))
    }
}

/// Positions that a sequence needs blocks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// End of the positions, in groups without a window.
    pub(crate) all: usize,
    /// End of the positions in groups with a window, after the next step: older blocks are released in between.
    pub(crate) next: usize,
}

impl Demand {
    fn blocks(self, group: Group, table: &BlockTable) -> usize {
        let positions = if group.mask.span().is_some() { self.next } else { self.all };
        positions.div_ceil(KV_BLOCK).saturating_sub(table.first + table.blocks.len())
    }
}

/// The blocks and slots of all requests. Free ones are used first, then cached ones that no request uses, least recently
/// used first.
///
/// A full block can be found by other requests as soon as the step that filled it has succeeded. The last block of a
/// request, partly filled, and the state after its last position can be found when it has ended; a request that
/// continues there writes into that block, and is the only one that has it.
#[derive(Debug)]
pub(crate) struct BlockManager {
    pub(crate) groups: Vec<(Group, Pool)>,
    pub(crate) slots: Pool,
}

impl BlockManager {
    pub(crate) fn new(groups: &[(Group, usize)], slots: usize) -> BlockManager {
        let groups = groups.iter().map(|&(group, blocks)| (group, Pool::new(blocks))).collect();
        BlockManager { groups, slots: Pool::new(slots) }
    }

    /// Blocks in use and all blocks, of the group with the largest share in use.
    pub(crate) fn blocks_used(&self) -> (usize, usize) {
        let used = |(_, pool): &(Group, Pool)| (pool.capacity() - pool.available(), pool.capacity());
        let share = |&(used, blocks): &(usize, usize)| used * 1000 / blocks.max(1);
        self.groups.iter().map(used).max_by_key(share).unwrap_or_default()
    }

    pub(crate) fn has_states(&self) -> bool {
        self.slots.capacity() > 0
    }

    pub(crate) fn empty(&self) -> Cache {
        let tables = vec![BlockTable::default(); self.groups.len()].into();
        Cache { positions: 0, tables, states: States::default(), published: 0 }
    }

    /// The number of leading `tokens`, up to `max`, that are cached: with all blocks that the next row sees, and the state.
    pub(crate) fn find(&self, prefixes: &Prefixes, tokens: &[u32], max: usize) -> usize {
        let full = max / KV_BLOCK;
        let mut is_deepest = true;
        for blocks in (0..=full).rev() {
            if !self.has_blocks(prefixes, blocks) {
                continue;
            }
            let start = blocks * KV_BLOCK;
            if is_deepest || self.has_states() {
                let partial = start + 1..(start + KV_BLOCK).min(max + 1);
                if let Some(end) = partial.rev().find(|&end| self.has_partial(prefixes, tokens, end)) {
                    return end;
                }
            }
            if self.has_state(prefixes, tokens, start) {
                return start;
            }
            is_deepest = false;
        }
        0
    }

    /// Whether every group has the full blocks that a row after `blocks` blocks sees.
    fn has_blocks(&self, prefixes: &Prefixes, blocks: usize) -> bool {
        self.groups.iter().all(|(group, pool)| {
            let first = group.mask.first_visible(blocks * KV_BLOCK) / KV_BLOCK;
            (first..blocks).rev().all(|block| pool.find(prefixes.after_blocks(block + 1)).is_some())
        })
    }

    /// Whether the partly filled block that ends at `end` is cached.
    fn has_partial(&self, prefixes: &Prefixes, tokens: &[u32], end: usize) -> bool {
        let prefix = prefixes.at(tokens, end);
        self.groups.iter().all(|(_, pool)| pool.find(prefix).is_some())
            && self.has_state(prefixes, tokens, end)
    }

    fn has_state(&self, prefixes: &Prefixes, tokens: &[u32], position: usize) -> bool {
        !self.has_states() || position == 0 || self.slots.find(prefixes.at(tokens, position)).is_some()
    }

    /// What [`BlockManager::find`] found, for a request. To be adopted or released.
    pub(crate) fn acquire(&mut self, prefixes: &Prefixes, tokens: &[u32], positions: usize) -> Cache {
        let mut cache = Cache { positions, published: positions / KV_BLOCK, ..self.empty() };
        let partial = (!positions.is_multiple_of(KV_BLOCK)).then(|| prefixes.at(tokens, positions));
        for ((group, pool), table) in self.groups.iter_mut().zip(Arc::make_mut(&mut cache.tables)) {
            table.first = group.mask.first_visible(positions) / KV_BLOCK;
            let full = (table.first..positions / KV_BLOCK).map(|block| prefixes.after_blocks(block + 1));
            table.blocks.extend(full.chain(partial).filter_map(|prefix| pool.find(prefix)));
            table.blocks.iter().for_each(|&block| pool.share(block));
        }
        if self.has_states() && positions > 0 {
            cache.states.current = self.slots.find(prefixes.at(tokens, positions));
            cache.states.current.iter().for_each(|&slot| self.slots.share(slot));
        }
        cache
    }

    /// Takes the partly filled blocks of an acquired cache from others: its request will write into them.
    pub(crate) fn adopt(&mut self, cache: &Cache) {
        for ((_, pool), table) in self.groups.iter_mut().zip(cache.tables.iter()) {
            cache.partial_block(table).iter().for_each(|&block| pool.unpublish(block));
        }
    }

    /// Extends the tables of `cache` to cover `demand`. Returns false and changes nothing if a group would need blocks of
    /// running requests.
    pub(crate) fn grow(&mut self, cache: &mut Cache, demand: Demand) -> bool {
        let mut are_missing = false;
        for ((group, pool), table) in self.groups.iter().zip(cache.tables.iter()) {
            let missing = demand.blocks(*group, table);
            if missing > pool.available() {
                return false;
            }
            are_missing |= missing > 0;
        }
        if are_missing {
            for ((group, pool), table) in self.groups.iter_mut().zip(Arc::make_mut(&mut cache.tables)) {
                let missing = demand.blocks(*group, table);
                table.blocks.extend((0..missing).filter_map(|_| pool.take()));
            }
        }
        true
    }

    /// Blocks and a slot for `positions` positions, with tables that begin with the given blocks; `None` if there are too few.
    pub(crate) fn allocate(&mut self, positions: usize, first: impl Iterator<Item = usize>) -> Option<Cache> {
        let mut cache = self.empty();
        Arc::make_mut(&mut cache.tables).iter_mut().zip(first).for_each(|(table, first)| table.first = first);
        if !self.grow(&mut cache, Demand { all: positions, next: positions }) {
            return None;
        }
        cache.positions = positions;
        if self.has_states() {
            cache.states.current = self.slots.take();
            if cache.states.current.is_none() {
                self.release(cache);
                return None;
            }
        }
        Some(cache)
    }

    /// The slots of the next step of `cache`. There are [`backend::SLOTS`] for each running request, which is one more
    /// than it has at any time.
    pub(crate) fn slots(&mut self, cache: &mut Cache, rows: usize, checkpoint: usize) -> Slots {
        if !self.has_states() {
            return Slots::default();
        }
        cache.states.step(&mut self.slots, cache.positions..cache.positions + rows, checkpoint)
    }

    /// The last step of `cache` has succeeded: other requests may find its full blocks and its checkpoint, and blocks before
    /// its windows are released.
    pub(crate) fn confirm(&mut self, cache: &mut Cache, prefixes: &mut Prefixes, tokens: &[u32]) {
        let full = cache.positions / KV_BLOCK;
        if cache.published < full {
            prefixes.extend(&tokens[..cache.positions]);
            for ((_, pool), table) in self.groups.iter_mut().zip(cache.tables.iter()) {
                for block in cache.published.max(table.first)..full {
                    pool.publish(table.blocks[block - table.first], prefixes.after_blocks(block + 1));
                }
            }
            cache.published = full;
        }
        cache.states.confirm(&mut self.slots, |position| prefixes.at(tokens, position));
        for (i, (group, pool)) in self.groups.iter_mut().enumerate() {
            let expired = first_needed_block(*group, cache.positions).saturating_sub(cache.tables[i].first);
            let expired = expired.min(cache.tables[i].blocks.len());
            if expired > 0 {
                let table = &mut Arc::make_mut(&mut cache.tables)[i];
                table.blocks.drain(..expired).for_each(|block| pool.release(block));
                table.first += expired;
            }
        }
    }

    /// The number of blocks before a window of `cache`, of the group with the most.
    pub(crate) fn expired(&self, cache: &Cache) -> usize {
        let expired = |((group, _), table): (&(Group, Pool), &BlockTable)| {
            first_needed_block(*group, cache.positions).saturating_sub(table.first)
        };
        self.groups.iter().zip(cache.tables.iter()).map(expired).max().unwrap_or(0)
    }

    /// Releases the cache of a request whose last step has succeeded, and lets others find all of it: also the last block, if
    /// that is partly filled, and the state after it.
    pub(crate) fn retire(&mut self, mut cache: Cache, prefixes: &mut Prefixes, tokens: &[u32]) {
        // Of blocks that were not published because others had the same contents, the others may be gone.
        cache.published = 0;
        self.confirm(&mut cache, prefixes, tokens);
        if cache.positions > 0 {
            let prefix = prefixes.at(tokens, cache.positions);
            for ((_, pool), table) in self.groups.iter_mut().zip(cache.tables.iter()) {
                cache.partial_block(table).iter().for_each(|&block| pool.publish(block, prefix));
            }
            cache.states.current.iter().for_each(|&slot| self.slots.publish(slot, prefix));
        }
        self.release(cache);
    }

    /// Releases the blocks and states of a request. Later blocks are evicted first: they are of no use without earlier ones.
    pub(crate) fn release(&mut self, cache: Cache) {
        for ((_, pool), table) in self.groups.iter_mut().zip(cache.tables.iter()) {
            table.blocks.iter().rev().for_each(|&block| pool.release(block));
        }
        cache.states.release(&mut self.slots);
    }

    /// Drops everything cached that no request uses.
    pub(crate) fn clear(&mut self) {
        self.groups.iter_mut().for_each(|(_, pool)| pool.clear());
        self.slots.clear();
    }
}
