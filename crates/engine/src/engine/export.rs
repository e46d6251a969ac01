//! Cached prefixes that leave an engine and enter another.

use backend::{CacheBlock, Feature, KV_BLOCK};

use super::Engine;
use crate::request::{Request, Tenant};
use crate::scheduler::Event;
use crate::{CachedPrefix, Error};

impl Engine {
    /// Copies the longest beginning of the prompt of `request` that is cached for its salt and adapter; `None` if nothing is.
    /// What a running request has computed in its last step is not cached yet.
    ///
    /// Together with [`Engine::import`] it moves a request to another engine: export its prompt and the tokens of its answer,
    /// once it has ended or was cancelled, import them there, and submit these tokens as a prompt. Fails if the backend
    /// does not support it.
    pub fn export(&mut self, request: &Request) -> Result<Option<CachedPrefix>, Error> {
        self.settle_cache()?;
        let Request { prompt, tenant: Tenant { cache_salt, .. }, adapter, .. } = request;
        let cache = self.scheduler.acquire(prompt, cache_salt, *adapter);
        let mut read = |block| self.runner.loaded_mut().read_block(block);
        let group = |(group, table): (usize, &backend::BlockTable)| {
            let blocks = table.blocks.iter().map(|&block| read(CacheBlock::Kv { group, block }));
            Ok((table.first, blocks.collect::<Result<_, backend::Error>>()?))
        };
        let groups = cache.tables.iter().enumerate().map(group).collect::<Result<_, backend::Error>>();
        let state = cache.states.current.map(|slot| read(CacheBlock::State { slot })).transpose();
        let (tokens, salt) = (prompt[..cache.positions].to_vec(), cache_salt.clone());
        self.scheduler.release(cache);
        let exported = CachedPrefix { tokens, salt, adapter: *adapter, groups: groups?, state: state? };
        Ok((!exported.tokens.is_empty()).then_some(exported))
    }

    /// Adds a prefix to the cache, as if a request had computed it. Returns false if running requests need the room.
    /// Fails if it is of another model, context or type of cache, as far as its sizes show, or if the backend does not support it.
    pub fn import(&mut self, prefix: &CachedPrefix) -> Result<bool, Error> {
        self.settle_cache()?;
        let CachedPrefix { tokens, salt, adapter, groups, state } = prefix;
        self.scheduler.admits(tokens.len(), 0)?;
        let (found, expected) = (groups.len(), self.model.graph().groups().len());
        if found != expected {
            return Err(backend::Error::Stores { found, expected }.into());
        }
        let blocks_needed = tokens.len().div_ceil(KV_BLOCK);
        for (group, (first, blocks)) in groups.iter().enumerate() {
            let found = blocks.len();
            if first.checked_add(found) != Some(blocks_needed) {
                let why = format!("block {first} and {found} in all, for {} tokens", tokens.len());
                return Err(
                    backend::Error::Step(format!("group {group} of a prefix begins with {why}")).into()
                );
            }
        }
        let Some(cache) = self.scheduler.allocate(tokens, groups.iter().map(|(first, _)| *first)) else {
            return Ok(false);
        };
        let tables = cache.tables.iter().zip(groups).enumerate();
        let blocks = tables.flat_map(|(group, (table, (_, blocks)))| {
            let own = table.blocks.iter().map(move |&block| CacheBlock::Kv { group, block });
            own.zip(blocks.iter().map(Vec::as_slice))
        });
        let state = state.as_deref().unwrap_or_default();
        let slot = cache.states.current.map(|slot| (CacheBlock::State { slot }, state));
        let loaded = self.runner.loaded_mut();
        let written = blocks.chain(slot).try_for_each(|(block, bytes)| loaded.write_block(block, bytes));
        if let Err(error) = written {
            self.scheduler.release(cache);
            return Err(error.into());
        }
        self.scheduler.publish(cache, tokens, salt, *adapter);
        Ok(true)
    }

    /// Ends what is ahead and applies all events, so that the cache is as the caller sees it.
    fn settle_cache(&mut self) -> Result<(), Error> {
        if !self.runner.loaded().supports(Feature::CacheBlocks) {
            let backend = self.runner.loaded().describe().name.to_owned();
            return Err(backend::Error::Unsupported { backend, feature: Feature::CacheBlocks }.into());
        }
        self.settle()?;
        if let Some(speculator) = &mut self.speculator {
            speculator.on_events(&self.pending.scheduler);
        }
        let events: Vec<Event> = self.pending.scheduler.drain(..).collect();
        self.scheduler.apply_all(events);
        Ok(())
    }
}
