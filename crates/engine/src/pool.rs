//! Blocks of a group of stores, or slots for states: in use, cached for a later request, or free.

use std::collections::{BTreeMap, HashMap};

use crate::prefix::Prefix;

/// Items of one kind. An item that was published under a prefix can be used by several requests; when none uses it any
/// more, it stays cached until its place is needed.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity: usize,
    /// The items used so far: an oversized pool costs nothing.
    items: Vec<Item>,
    free: Vec<u32>,
    by_prefix: HashMap<Prefix, u32>,
    /// Cached items without a user, by the time of their release.
    idle: BTreeMap<u64, u32>,
    releases: u64,
}

#[derive(Debug, Default)]
struct Item {
    users: usize,
    published: Option<Prefix>,
    /// When the last user released it.
    released: u64,
}

impl Pool {
    pub(crate) fn new(capacity: usize) -> Pool {
        Pool {
            capacity: capacity.min(u32::MAX as usize),
            items: Vec::new(),
            free: Vec::new(),
            by_prefix: HashMap::new(),
            idle: BTreeMap::new(),
            releases: 0,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Items that no request uses.
    pub(crate) fn available(&self) -> usize {
        self.capacity - self.items.len() + self.free.len() + self.idle.len()
    }

    /// An item for one user. The least recently used cached item is dropped if no other is free.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let item = self.free.pop().or_else(|| self.unused()).or_else(|| self.evict())?;
        self.items[item as usize].users = 1;
        Some(item)
    }

    fn unused(&mut self) -> Option<u32> {
        let item = u32::try_from(self.items.len()).ok().filter(|&item| (item as usize) < self.capacity)?;
        self.items.push(Item::default());
        Some(item)
    }

    fn evict(&mut self) -> Option<u32> {
        let (_, item) = self.idle.pop_first()?;
        self.unpublish(item);
        Some(item)
    }

    /// The item of `prefix`.
    pub(crate) fn find(&self, prefix: Prefix) -> Option<u32> {
        self.by_prefix.get(&prefix).copied()
    }

    /// Adds a user to an item that was found.
    pub(crate) fn share(&mut self, item: u32) {
        let state = &mut self.items[item as usize];
        if state.users == 0 {
            self.idle.remove(&state.released);
        }
        state.users += 1;
    }

    /// Lets other requests find an item in use. If there is one with the same contents, they go on to find that.
    pub(crate) fn publish(&mut self, item: u32, prefix: Prefix) {
        if self.items[item as usize].published.is_none() && !self.by_prefix.contains_key(&prefix) {
            self.items[item as usize].published = Some(prefix);
            self.by_prefix.insert(prefix, item);
        }
    }

    /// Hides an item from other requests, before it is overwritten.
    pub(crate) fn unpublish(&mut self, item: u32) {
        if let Some(prefix) = self.items[item as usize].published.take() {
            self.by_prefix.remove(&prefix);
        }
    }

    /// Removes a user of an item.
    pub(crate) fn release(&mut self, item: u32) {
        let state = &mut self.items[item as usize];
        state.users -= 1;
        if state.users > 0 {
            return;
        }
        if state.published.is_some() {
            self.releases += 1;
            state.released = self.releases;
            self.idle.insert(self.releases, item);
        } else {
            self.free.push(item);
        }
    }

    /// Drops all cached items without a user.
    pub(crate) fn clear(&mut self) {
        while let Some(item) = self.evict() {
            self.free.push(item);
        }
    }

    /// Items that are cached and not in use.
    #[cfg(test)]
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }
}
