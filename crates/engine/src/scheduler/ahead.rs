//! Rows after the last known token of a request: of drafted tokens, and of tokens that a device has yet to choose.

use backend::KV_BLOCK;

use super::{Chunk, Event, RequestId, Scheduler, Sequence};
use crate::blocks::Demand;

/// Blocks before a window that a request may keep while steps are ahead.
const MAX_EXPIRED: usize = 2;

impl Scheduler {
    /// Plans rows for `draft`, which follows the tokens of a request that the last plan has computed up to the last one, and
    /// what was drafted before: as many as fit the context and the available blocks. No request loses blocks for that.
    pub(crate) fn draft(&mut self, id: RequestId, draft: &[u32]) -> Option<Chunk> {
        let request = self.running.get_mut(&id)?;
        debug_assert!(!self.blocks.has_states(), "a state cannot go back to before the draft");
        let n_past = request.tokens.len();
        if request.remaining() != request.drafted {
            return None;
        }
        let most = draft.len().min(self.limits.n_ctx.saturating_sub(n_past + 1));
        // Without another block, as many as the last one has room for.
        let in_block = most.min(n_past.next_multiple_of(KV_BLOCK) - n_past);
        let mut fits = |rows| {
            let end = n_past + rows;
            rows > 0 && self.blocks.grow(&mut request.cache, Demand { all: end, next: end })
        };
        let rows = [most, in_block].into_iter().find(|&rows| fits(rows))?;
        request.tokens.extend_from_slice(&draft[..rows]);
        request.drafted += rows;
        self.queue.charge(request.admission.client, rows);
        let tables = request.cache.tables.clone();
        let sequence = backend::Sequence { n_past, len: rows, tables, ..backend::Sequence::default() };
        Some(Chunk { id, sequence, outputs: rows, is_last: true, drafted: rows, ahead: None })
    }

    /// Applies `events`, tokens and ends, and plans the step after the one that is computed, of one row for each of these requests
    /// with the token of its output row, which is not known yet. `None`, and only the events have changed anything, if a
    /// running request has other rows to compute, if blocks are lacking, if the model has recurrent states, or if a waiting request
    /// might be admitted.
    pub(crate) fn follow(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        next: &[(RequestId, u32)],
    ) -> Option<Vec<Chunk>> {
        self.apply_all(events);
        let is_full = self.running.len() == self.limits.sequences;
        // Blocks before a window are released by the next step that is not ahead.
        let is_computed = |request: &Sequence| {
            request.remaining() == 0
                && request.drafted == 0
                && self.blocks.expired(&request.cache) <= MAX_EXPIRED
        };
        if self.blocks.has_states()
            || !(self.waiting.is_empty() || is_full)
            || !self.running.values().all(is_computed)
        {
            return None;
        }
        for (id, _) in next {
            let request = self.running.get_mut(id)?;
            let end = request.tokens.len() + 1;
            if !self.blocks.grow(&mut request.cache, Demand { all: end, next: end }) {
                return None;
            }
        }
        let mut chunks = Vec::with_capacity(next.len());
        for &(id, row) in next {
            let request = self.running.get_mut(&id)?;
            self.queue.charge(request.admission.client, 1);
            let (n_past, tables) = (request.tokens.len(), request.cache.tables.clone());
            request.tokens.push(0);
            request.is_ahead = true;
            let sequence = backend::Sequence { n_past, len: 1, tables, ..backend::Sequence::default() };
            chunks.push(Chunk { id, sequence, outputs: 1, is_last: true, drafted: 0, ahead: Some(row) });
        }
        Some(chunks)
    }

    /// Applies the tokens among `events`, and removes them.
    pub(crate) fn commit(&mut self, events: &mut Vec<Event>) {
        let is_token = |event: &mut Event| matches!(event, Event::Token { .. });
        for event in events.extract_if(.., is_token) {
            self.apply(event);
        }
    }

    /// Undoes what [`Scheduler::follow`] has planned, if its step does not run.
    pub(crate) fn rollback(&mut self) {
        for request in self.running.values_mut().filter(|request| request.is_ahead) {
            request.tokens.pop();
            request.is_ahead = false;
        }
    }
}
