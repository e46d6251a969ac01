//! The states of sequences: in which slots they are, and whether a step reads the one that it continues.

use std::collections::HashSet;

use backend::SLOTS;

use super::World;
use crate::scheduler::{Plan, Scheduler};

impl Scheduler {
    /// The slots of each running request and idle sequence.
    fn slots(&self) -> impl Iterator<Item = Vec<u32>> {
        let idle = self.blocks.idle.iter().map(|(_, cache)| &cache.states);
        let running = self.running.values().map(|request| &request.states);
        running.chain(idle).map(|states| states.slots().collect())
    }
}

impl World {
    /// Every slot is free, or has the state of one sequence.
    pub(super) fn check_slots(&self) {
        let used: Vec<Vec<u32>> = self.scheduler.slots().collect();
        assert!(used.iter().all(|slots| slots.len() <= SLOTS), "{used:?}");
        let all: Vec<u32> = used.into_iter().flatten().collect();
        let distinct: HashSet<u32> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len(), "a slot is shared");
        assert_eq!(all.len() + self.scheduler.blocks.slots.free(), self.slots.len(), "a slot leaked");
    }

    /// Every chunk reads the state after its past, and writes slots that no other chunk uses.
    pub(super) fn run_slots(&mut self, plan: &Plan) {
        if self.slots.is_empty() {
            return;
        }
        let written: Vec<u32> = plan.chunks.iter().flat_map(|chunk| chunk.slots.written()).collect();
        let distinct: HashSet<u32> = written.iter().copied().collect();
        assert_eq!(distinct.len(), written.len(), "a slot is written twice");
        for chunk in &plan.chunks {
            let tokens = &self.alive[&chunk.id].tokens;
            let end = chunk.n_past + chunk.tokens.len();
            if chunk.n_past > 0 {
                assert!(!distinct.contains(&chunk.slots.read), "a state that is read is written");
                let state = &self.slots[chunk.slots.read as usize];
                assert_eq!(*state, tokens[..chunk.n_past], "the state of the past");
            }
            if let Some((rows, slot)) = chunk.slots.checkpoint {
                assert!((1..chunk.tokens.len()).contains(&rows));
                self.slots[slot as usize] = tokens[..chunk.n_past + rows].to_vec();
            }
            self.slots[chunk.slots.write as usize] = tokens[..end].to_vec();
        }
    }
}
