//! Drafts of a smaller model.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::{Backend, KvLayout, Output, Step};
use runner::ModelRunner;

use super::{DraftQuery, Drafter};
use crate::Error;
use crate::ids::RequestId;
use crate::model::Model;
use crate::options::Options;
use crate::random::random_key;
use crate::scheduler::{Chunk, Event, Scheduler};

/// A smaller model with the same vocabulary, which drafts what an [`Engine`](crate::Engine) then verifies.
///
/// Its requests are those of the engine, computed in its own steps and kept in its own KV cache. A draft is its most likely
/// continuation. When it fails, there are no more drafts.
pub struct DraftModel {
    model: Arc<Model>,
    runner: ModelRunner,
    scheduler: Scheduler,
    /// Tokens that both models have.
    n_vocab: usize,
    /// Events that its scheduler has not applied yet.
    events: Vec<Event>,
    /// Whether it has prompts to compute.
    has_prompts: bool,
    has_failed: bool,
}

/// Events at which a step is due although no draft is requested.
const MAX_EVENTS: usize = 256;

impl DraftModel {
    /// Loads `model` on `backend`, to draft for an engine of `target` with these `options`. Fails if the vocabularies differ, or
    /// one of the models has recurrent layers; if it computes no text; or if the backend cannot load it.
    pub fn new(
        model: Arc<Model>,
        backend: Box<dyn Backend>,
        target: &Model,
        options: Options,
    ) -> Result<DraftModel, Error> {
        if let Some(pooling) = model.config().pooling {
            return Err(Error::ComputesEmbeddings { pooling });
        }
        for model in [target, &model] {
            if model.graph().state_values() > 0 {
                let (file, architecture) =
                    (model.file().file().to_owned(), model.config().architecture.to_owned());
                return Err(Error::CannotGoBack { file, architecture });
            }
        }
        let n_vocab = common_vocabulary(&model, target)?;
        let layout = options.for_draft(target)?.layout(&model)?;
        let (file, graph) = (model.file(), model.graph());
        let mut runner = ModelRunner::new(file, graph, backend, &layout.kv_layout, &layout.buckets)?;
        runner.prepare(file)?;
        file.check_intact()?;
        let KvLayout { blocks, slots, .. } = layout.kv_layout;
        let groups: Vec<_> = graph.groups().iter().copied().zip(blocks).collect();
        let scheduler = Scheduler::new(layout.limits, &groups, slots, random_key());
        Ok(DraftModel {
            model,
            runner,
            scheduler,
            n_vocab,
            events: Vec::new(),
            has_prompts: false,
            has_failed: false,
        })
    }

    /// Whether both models have all of `tokens`.
    fn knows(&self, tokens: &[u32]) -> bool {
        tokens.iter().all(|&token| (token as usize) < self.n_vocab)
    }

    fn try_draft(
        &mut self,
        queries: &[DraftQuery<'_>],
        prompt_rows: usize,
    ) -> Result<BTreeMap<RequestId, Vec<u32>>, Error> {
        let most: BTreeMap<RequestId, usize> = queries.iter().map(|query| (query.id, query.most)).collect();
        let mut drafts: BTreeMap<RequestId, Vec<u32>> = BTreeMap::new();
        // The tokens of requests that decode without drafts are computed together, when there is one again.
        if queries.is_empty() && !self.has_prompts && self.events.len() < MAX_EVENTS {
            return Ok(drafts);
        }
        let mut chunks = self.scheduler.step(self.events.drain(..), |_| prompt_rows).chunks;
        self.has_prompts = chunks.iter().any(|chunk| !chunk.is_last);
        while !chunks.is_empty() {
            let mut next = Vec::new();
            for (id, token) in self.run(chunks, |id| most.contains_key(&id))? {
                if !self.knows(&[token]) {
                    continue;
                }
                let draft = drafts.entry(id).or_default();
                draft.push(token);
                let is_end = self.model.tokenizer().ends_generation(token);
                if !is_end && most.get(&id).is_some_and(|&most| draft.len() < most) {
                    next.extend(self.scheduler.draft(id, &[token]));
                }
            }
            chunks = next;
        }
        Ok(drafts)
    }

    /// Computes `chunks`, and the most likely token after each that ends with the last token of one of the `drafting` requests.
    fn run(
        &mut self,
        chunks: Vec<Chunk>,
        drafting: impl Fn(RequestId) -> bool,
    ) -> Result<Vec<(RequestId, u32)>, Error> {
        let (mut rows, mut sequences, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in chunks {
            let end = chunk.sequence.positions().end;
            let is_drafting = chunk.is_last && drafting(chunk.id);
            let is_last = |position| is_drafting && position + 1 == end;
            let output = |position| if is_last(position) { Output::Greedy } else { Output::None };
            rows.extend(self.scheduler.rows(&chunk, output));
            sequences.push(chunk.sequence);
            ids.extend(is_drafting.then_some(chunk.id));
        }
        let ran = self.runner.run(&Step::new(rows, sequences)?);
        self.model.file().check_intact()?;
        let outputs = ran?;
        // Without a token, a logit is no number: the request has no draft.
        Ok((0..).zip(ids).filter_map(|(index, id)| Some((id, outputs.token(index)?))).collect())
    }
}

impl Drafter for DraftModel {
    fn on_event(&mut self, event: &Event) {
        let event = match event {
            // What was drafted for it is dropped with the next step.
            Event::Rewind { .. } => return,
            // It asks for the logits of its prompt, mostly without an answer.
            Event::Submit { outputs_from: Some(_), .. } => return,
            Event::Submit { tokens, .. } if !self.knows(tokens) => return,
            Event::Token { id, token } if !self.knows(&[*token]) => Event::End { id: *id, intact: true },
            event => event.clone(),
        };
        if !self.has_failed {
            self.has_prompts |= matches!(event, Event::Submit { .. });
            self.events.push(event);
        }
    }

    fn draft(&mut self, queries: &[DraftQuery<'_>], prompt_rows: usize) -> Vec<Vec<u32>> {
        let mut drafts = BTreeMap::new();
        if !self.has_failed {
            drafts = self.try_draft(queries, prompt_rows).unwrap_or_else(|error| {
                tracing::warn!("the draft model has failed, so that there are no more drafts: {error}");
                self.has_failed = true;
                BTreeMap::new()
            });
        }
        queries.iter().map(|query| drafts.remove(&query.id).unwrap_or_default()).collect()
    }
}

/// The number of token ids that both models have. Fails if an id has different texts. One model may have more, as padding of its
/// matrices.
fn common_vocabulary(draft: &Model, target: &Model) -> Result<usize, Error> {
    let [ours, theirs] = [draft, target].map(|model| model.tokenizer());
    let both = ours.vocab_size().min(theirs.vocab_size());
    let text = |tokenizer: &tokenizer::Tokenizer, id| tokenizer.token_text(id).unwrap_or_default().to_owned();
    match (0..both as u32).find(|&id| ours.token_text(id) != theirs.token_text(id)) {
        None => Ok(both),
        Some(id) => Err(Error::DraftVocabulary {
            draft: draft.file().file().to_owned(),
            model: target.file().file().to_owned(),
            id,
            found: text(ours, id),
            expected: text(theirs, id),
        }),
    }
}

impl std::fmt::Debug for DraftModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DraftModel").field("model", &self.model).finish_non_exhaustive()
    }
}
