//! Chooses the next tokens of a step's requests, in parallel if that pays off.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use backend::Answer;

use crate::ids::RequestId;
use crate::request::{DraftCounts, Event};
use crate::request_state::RequestState;

/// Logits per step from which sampling uses several threads: starting a thread takes as long as sampling from some
/// ten thousand logits.
const MIN_LOGITS: usize = 1 << 16;

/// A request whose last token was in the step.
pub(crate) struct Choice<'a> {
    pub(crate) id: RequestId,
    pub(crate) state: Box<RequestState>,
    /// Prompt, generated and drafted tokens.
    tokens: &'a [u32],
    /// Of the last generated token and of the drafted ones.
    answers: Vec<Answer<'a>>,
    /// Tokens of the text, and its end or failure.
    pub(crate) events: Vec<Event>,
    /// The last one of them.
    pub(crate) last: Option<u32>,
    pub(crate) drafts: DraftCounts,
    pub(crate) is_over: bool,
}

impl<'a> Choice<'a> {
    pub(crate) fn new(
        id: RequestId,
        state: Box<RequestState>,
        tokens: &'a [u32],
        answers: Vec<Answer<'a>>,
    ) -> Choice<'a> {
        let drafted = answers.len() as u64 - 1;
        let drafts = DraftCounts { drafts: u64::from(drafted > 0), drafted, accepted: 0 };
        Choice { id, state, tokens, answers, events: Vec::new(), last: None, drafts, is_over: false }
    }

    /// Chooses a token from each row until one differs from the drafted token: later rows were computed for the drafted one. The
    /// state of the request sees the same calls as without a draft.
    fn choose(&mut self, n_ctx: usize, now: Instant) {
        let (id, generated) = (self.id, self.tokens.len() - self.drafts.drafted as usize);
        let mut end = None;
        for (row, &answer) in self.answers.iter().enumerate() {
            let tokens = &self.tokens[..generated + row];
            let (token, logprobs) = match self.state.choose(answer, tokens) {
                Ok(chosen) => chosen,
                Err(error) => {
                    end = Some(Err(error));
                    break;
                }
            };
            let (text, ended) = self.state.accept(token, tokens.len() + 1, n_ctx, now);
            self.events.push(Event::Token { id, token, text, logprobs });
            self.last = Some(token);
            end = ended.map(Ok);
            let is_drafted = self.tokens.get(generated + row) == Some(&token);
            self.drafts.accepted += u64::from(is_drafted);
            if end.is_some() || !is_drafted {
                break;
            }
        }
        if self.drafts.drafted > 0 {
            self.state.verified(self.drafts);
        }
        self.is_over = end.is_some();
        self.events.extend(end.map(|end| match end {
            Ok(reason) => Event::Done { id, reason, usage: self.state.usage(now) },
            Err(error) => Event::Failed { id, error: error.into() },
        }));
    }

    fn logits(&self) -> usize {
        let logits = |answer: &Answer<'_>| if let Answer::Logits(logits) = answer { logits.len() } else { 0 };
        self.answers.iter().map(logits).sum()
    }
}

/// Chooses the tokens of each request on up to `threads` threads, in contexts of `n_ctx` tokens. The result does not depend on
/// the number of threads.
pub(crate) fn choose_all(all: &mut [Choice<'_>], threads: usize, n_ctx: usize, now: Instant) {
    let (mut sampled, done): (Vec<_>, Vec<_>) = all.iter_mut().partition(|choice| choice.logits() > 0);
    done.into_iter().for_each(|choice| choice.choose(n_ctx, now));
    let logits: usize = sampled.iter().map(|choice| choice.logits()).sum();
    share(&mut sampled, if logits < MIN_LOGITS { 1 } else { threads }, |choice| choice.choose(n_ctx, now));
}

/// Calls `each` for all `items` on `threads` threads, the calling one included. If the system refuses to start
/// threads, fewer do the work.
fn share<T: Send>(items: &mut [T], threads: usize, each: impl Fn(&mut T) + Sync) {
    let others = threads.min(items.len()).saturating_sub(1);
    let left = Mutex::new(items.iter_mut());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(item) = next() {
            each(item);
        }
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work);
        let started = (0..others).map(start).take_while(Result::is_ok).count();
        tracing::trace!(threads = 1 + started, "sampling");
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_whoever_shares_them() {
        for items in [0, 1, 2, 5, 8, 9] {
            for threads in [1, 2, 3, 8, 20] {
                let mut counts = vec![0; items];
                share(&mut counts, threads, |count| *count += 1);
                assert_eq!(counts, vec![1; items], "{threads} threads");
            }
        }
    }
}
