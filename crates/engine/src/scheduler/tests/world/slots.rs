//! The states of sequences: in which slots they are, and whether a step reads the one that it continues.

use std::collections::HashSet;

use backend::SLOTS;

use super::World;
use crate::scheduler::{Plan, Scheduler};

impl World {
    /// Every slot is in use or available, and a request has no more than its share.
    pub(super) fn check_slots(&self) {
        let used =
            |scheduler: &Scheduler| scheduler.blocks.slots.capacity() - scheduler.blocks.slots.available();
        let running = self.scheduler.running.len();
        assert!(used(&self.scheduler) <= (SLOTS - 1) * running, "a slot leaked");
    }

    /// Every chunk reads the state after its past, and writes slots that no other chunk uses.
    pub(super) fn check_states(&self, plan: &Plan) {
        if self.slots.is_empty() {
            return;
        }
        let written: Vec<u32> = plan.chunks.iter().flat_map(|chunk| chunk.sequence.slots.written()).collect();
        let distinct: HashSet<u32> = written.iter().copied().collect();
        assert_eq!(distinct.len(), written.len(), "a slot is written twice");
        for chunk in &plan.chunks {
            if chunk.sequence.n_past > 0 {
                assert!(!distinct.contains(&chunk.sequence.slots.read), "a state that is read is written");
                let state = &self.slots[chunk.sequence.slots.read as usize];
                assert_eq!(
                    *state,
                    self.alive[&chunk.id].tokens[..chunk.sequence.n_past],
                    "the state of the past"
                );
            }
            if let Some((rows, _)) = chunk.sequence.slots.checkpoint {
                assert!((1..chunk.sequence.len).contains(&rows));
            }
        }
    }
}
