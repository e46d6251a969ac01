//! Slots for the state of recurrent layers, which is not kept for every position as keys and values are.
//!
//! A step reads the state before its first row from one slot and writes the state after its last row to another, so that
//! it can be repeated. A prompt leaves a checkpoint shortly before its end. A later prompt with the same beginning, such as
//! that of the next chat message, reuses it.

use std::ops::Range;

use backend::{PAGE, SLOTS, Slots};

/// Tokens between a checkpoint and the end of the prompt, at least: templates end a prompt with a few tokens that they do
/// not repeat in the next turn.
const MARGIN: usize = 8;

/// The position of the checkpoint of a prompt of `tokens` tokens; 0 for none.
pub(crate) fn checkpoint_of(tokens: usize) -> usize {
    tokens.saturating_sub(MARGIN) / PAGE * PAGE
}

/// A stored state: of which position, and where.
#[derive(Clone, Copy, Debug)]
struct Stored {
    position: usize,
    slot: u32,
    is_checkpoint: bool,
}

/// The stored states of one sequence, by position.
#[derive(Debug, Default)]
pub(crate) struct States(Vec<Stored>);

impl States {
    /// The last position up to `max` whose state is stored; 0, which needs no state, if there is none.
    pub(crate) fn last(&self, max: usize) -> usize {
        self.0.iter().rev().map(|stored| stored.position).find(|&position| position <= max).unwrap_or(0)
    }

    /// Slots in use.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|stored| stored.slot)
    }
}

/// The slots that no sequence has.
#[derive(Debug)]
pub(crate) struct SlotPool {
    /// Whether the model has any recurrent layer.
    is_used: bool,
    /// Slots never used so far.
    unused: Range<u32>,
    free: Vec<u32>,
}

impl SlotPool {
    pub(crate) fn new(slots: usize) -> SlotPool {
        let end = u32::try_from(slots).unwrap_or(u32::MAX);
        SlotPool { is_used: slots > 0, unused: 0..end, free: Vec::new() }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len() + self.unused.len()
    }

    /// Frees all states.
    pub(crate) fn clear(&mut self, states: &mut States) {
        self.retain(states, |_| false);
    }

    /// Frees the states after `position`.
    pub(crate) fn rewind(&mut self, states: &mut States, position: usize) {
        self.retain(states, |stored| stored.position <= position);
    }

    /// Frees states that no later step reads: those before `position` that are no checkpoints, and the oldest
    /// checkpoints, so that `more` slots can be added.
    pub(crate) fn trim(&mut self, states: &mut States, position: usize, more: usize) {
        self.retain(states, |stored| stored.is_checkpoint || stored.position == position);
        while states.0.len() + more > SLOTS {
            self.free.push(states.0.remove(0).slot);
        }
    }

    fn retain(&mut self, states: &mut States, keep: impl Fn(&Stored) -> bool) {
        let gone = states.0.extract_if(.., |stored| !keep(stored));
        self.free.extend(gone.map(|stored| stored.slot));
    }

    /// The slots of a step of `rows`, for which there are enough free ones.
    pub(crate) fn step(&mut self, states: &mut States, rows: Range<usize>, checkpoint: usize) -> Slots {
        let read = states.0.iter().find(|stored| stored.position == rows.start);
        let read = read.map_or(0, |stored| stored.slot);
        let mut store = |position: usize| {
            let slot = self.free.pop().or_else(|| self.unused.next()).expect("a free slot");
            states.0.push(Stored { position, slot, is_checkpoint: position == checkpoint });
            slot
        };
        let is_inside = rows.start < checkpoint && checkpoint < rows.end;
        let checkpoint = is_inside.then(|| (checkpoint - rows.start, store(checkpoint)));
        Slots { read, write: store(rows.end), checkpoint }
    }
}
