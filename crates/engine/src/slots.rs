//! Slots for the state of recurrent layers, which is not kept for every position as keys and values are.
//!
//! A step reads the state before its first row from one slot and writes the state after its last row to another, so that
//! it can be repeated. A prompt leaves a checkpoint shortly before its end. A later prompt with the same beginning, such as
//! that of the next chat message, continues from it.

use std::ops::Range;

use backend::{KV_BLOCK, Slots};

use crate::pool::Pool;
use crate::prefix::Prefix;

/// Tokens between a checkpoint and the end of the prompt, at least: templates end a prompt with a few tokens that they do
/// not repeat in the next turn.
const MARGIN: usize = 8;

/// The position of the checkpoint of a prompt of `tokens` tokens; 0 for none.
pub(crate) fn checkpoint_position(tokens: usize) -> usize {
    tokens.saturating_sub(MARGIN) / KV_BLOCK * KV_BLOCK
}

/// The states of one running request.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// The state after its cached positions; none at position 0.
    pub(crate) current: Option<u32>,
    /// What the last step read and wrote, until it is known to have succeeded.
    last: Option<LastStep>,
}

#[derive(Debug)]
struct LastStep {
    read: Option<u32>,
    /// Position and slot of a state before the last row.
    inside: Option<(usize, u32)>,
    /// The position after the last row, if its state is worth publishing.
    end: Option<usize>,
}

impl States {
    /// The slots of a step over `rows` of a prompt with this `checkpoint`, or after it. Takes one slot, or two.
    pub(crate) fn step(&mut self, pool: &mut Pool, rows: Range<usize>, checkpoint: usize) -> Slots {
        let mut take =
            || pool.take().expect("a request has at most three slots, and there are four for each");
        let is_inside = rows.start < checkpoint && checkpoint < rows.end;
        let inside = is_inside.then(|| (checkpoint, take()));
        let (read, write) = (self.current, take());
        let end = Some(rows.end).filter(|&end| end <= checkpoint && end % KV_BLOCK == 0);
        self.current = Some(write);
        self.last = Some(LastStep { read, inside, end });
        let checkpoint = inside.map(|(position, slot)| (position - rows.start, slot));
        Slots { read: read.unwrap_or(0), write, checkpoint }
    }

    /// The last step has succeeded: publishes its states that a later request may continue from.
    pub(crate) fn confirm(&mut self, pool: &mut Pool, prefix_at: impl Fn(usize) -> Prefix) {
        let Some(LastStep { read, inside, end }) = self.last.take() else { return };
        if let (Some(end), Some(slot)) = (end, self.current) {
            pool.publish(slot, prefix_at(end));
        }
        if let Some((position, slot)) = inside {
            pool.publish(slot, prefix_at(position));
            pool.release(slot);
        }
        read.into_iter().for_each(|slot| pool.release(slot));
    }

    /// The last step did not run.
    pub(crate) fn rewind(&mut self, pool: &mut Pool) {
        if let Some(LastStep { read, inside, .. }) = self.last.take() {
            let written = self.current.into_iter().chain(inside.map(|(_, slot)| slot));
            written.for_each(|slot| pool.release(slot));
            self.current = read;
        }
    }

    pub(crate) fn release(mut self, pool: &mut Pool) {
        self.rewind(pool);
        self.current.into_iter().for_each(|slot| pool.release(slot));
    }
}
