//! Speculative decoding (Leviathan, Kalman and Matias 2023): a step computes the last token of a request together with drafted
//! ones, which cost little besides it.
//!
//! Every row is sampled as it would be by itself. As long as the sampled tokens are those of the draft, the rows after them
//! are those of the text; the rows of the others are computed again. So a draft changes the speed and nothing else, whatever
//! the samplers and grammars of the request.

mod draft_model;
pub(crate) mod length;
mod ngram;
pub(crate) mod options;

use std::collections::BTreeMap;

use crate::ids::RequestId;
use crate::request_state::RequestState;
use crate::scheduler::{Chunk, Event, Scheduler};
pub use draft_model::DraftModel;
use ngram::NgramLookup;
use options::Speculation;

/// A request that decodes and may have a draft.
#[derive(Debug)]
pub(crate) struct DraftQuery<'a> {
    pub(crate) id: RequestId,
    /// Prompt and generated tokens.
    pub(crate) tokens: &'a [u32],
    /// Maximum number of drafted tokens, at least 1.
    pub(crate) most: usize,
}

/// A source of drafts.
pub(crate) trait Drafter: Send {
    /// Called with the events of the scheduler, before the step that they lead to is planned.
    fn on_event(&mut self, _event: &Event) {}

    /// The draft for each of `queries`: tokens that probably follow, or none. Called once for each step, so that work can be
    /// spread over steps.
    /// A draft model computes at most `prompt_rows` tokens of prompts while others decode.
    fn draft(&mut self, queries: &[DraftQuery<'_>], prompt_rows: usize) -> Vec<Vec<u32>>;
}

/// Adds drafts to planned steps.
pub(crate) struct Speculator {
    options: Speculation,
    /// Maximum rows of a step with drafts.
    rows: usize,
    drafter: Box<dyn Drafter>,
}

impl Speculator {
    /// One that looks up drafts in the tokens of the request, for steps of up to `n_batch` rows.
    pub(crate) fn new(options: Speculation, n_batch: usize) -> Speculator {
        Speculator { options, rows: options.rows(n_batch), drafter: Box::new(NgramLookup) }
    }

    /// Uses `model` for all drafts from now on.
    pub(crate) fn draft_with(&mut self, model: DraftModel) {
        self.drafter = Box::new(model);
    }

    /// Called with events before [`Scheduler::step`] is.
    pub(crate) fn on_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.drafter.on_event(event));
    }

    /// Appends drafts to the chunks of a step in which all requests decode, few enough that there are rows for drafts.
    pub(crate) fn draft(
        &mut self,
        scheduler: &mut Scheduler,
        requests: &mut BTreeMap<RequestId, Box<RequestState>>,
        chunks: &mut [Chunk],
        prompt_rows: usize,
    ) {
        let has_room = chunks.len() < self.rows && chunks.iter().all(Chunk::is_decode);
        let each = if has_room { (self.rows - chunks.len()) / chunks.len().max(1) } else { 0 };
        let n_min = self.options.n_min;
        let query = |chunk: &Chunk| {
            let most = requests.get_mut(&chunk.id)?.draft_length(n_min, each);
            let tokens = scheduler.tokens(chunk.id)?;
            (most > 0).then_some(DraftQuery { id: chunk.id, tokens, most })
        };
        let queries: Vec<DraftQuery<'_>> = chunks.iter().filter(|_| each > 0).filter_map(query).collect();
        let ids: Vec<RequestId> = queries.iter().map(|query| query.id).collect();
        let drafts = self.drafter.draft(&queries, prompt_rows);
        for (id, draft) in ids.into_iter().zip(drafts) {
            let chunk = chunks.iter_mut().find(|chunk| chunk.id == id);
            if let Some(chunk) = chunk.filter(|_| draft.len() >= n_min)
                && let Some(draft) = scheduler.draft(id, &draft)
            {
                chunk.append(draft);
            }
        }
    }
}
