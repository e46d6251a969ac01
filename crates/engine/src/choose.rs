//! Chooses the next tokens of a step's requests, in parallel if that pays off.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::request::DraftCounts;
use crate::request_state::{RequestState, RowOutput};
use crate::sampling::{Logprobs, SamplingError};
use crate::scheduler::RequestId;
use crate::stop::StopReason;

/// Logits per step from which sampling uses several threads: starting a thread takes as long as sampling from some
/// ten thousand logits.
const MIN_LOGITS: usize = 1 << 16;

/// A request whose last token was in the step.
pub(crate) struct Rows<'a> {
    pub(crate) id: RequestId,
    pub(crate) state: Box<RequestState>,
    /// Prompt, generated and drafted tokens.
    pub(crate) tokens: &'a [u32],
    /// The outputs of the last generated token and of the drafted ones.
    pub(crate) outputs: Vec<RowOutput<'a>>,
    pub(crate) chosen: Vec<Chosen>,
    /// Why the text ends with the last of the chosen tokens, or fails after it.
    pub(crate) end: Option<Result<StopReason, SamplingError>>,
}

/// A token of the text.
pub(crate) struct Chosen {
    pub(crate) token: u32,
    pub(crate) text: String,
    pub(crate) logprobs: Option<Logprobs>,
}

impl Rows<'_> {
    /// Drafted tokens.
    pub(crate) fn drafted(&self) -> &[u32] {
        &self.tokens[self.tokens.len() + 1 - self.outputs.len()..]
    }

    /// Drafted tokens, and those that were chosen.
    pub(crate) fn draft_counts(&self) -> DraftCounts {
        let drafted = self.drafted();
        let accepted = drafted.iter().zip(&self.chosen).filter(|(drafted, chosen)| **drafted == chosen.token);
        DraftCounts {
            drafts: u64::from(!drafted.is_empty()),
            accepted: accepted.count() as u64,
            drafted: drafted.len() as u64,
        }
    }

    /// Chooses a token from each row, until one is not the drafted token: later rows follow that. The state of the request
    /// sees the same calls as without a draft.
    fn choose(&mut self, n_ctx: usize, now: Instant) {
        let generated = self.tokens.len() - self.drafted().len();
        for (row, &output) in self.outputs.iter().enumerate() {
            let tokens = &self.tokens[..generated + row];
            let (token, logprobs) = match self.state.choose(output, tokens) {
                Ok(chosen) => chosen,
                Err(error) => {
                    self.end = Some(Err(error));
                    break;
                }
            };
            let (text, ended) = self.state.accept(token, tokens.len() + 1, n_ctx, now);
            self.chosen.push(Chosen { token, text, logprobs });
            self.end = ended.map(Ok);
            if self.end.is_some() || self.tokens.get(generated + row) != Some(&token) {
                break;
            }
        }
        if !self.drafted().is_empty() {
            self.state.verified(self.draft_counts());
        }
    }

    fn logits(&self) -> usize {
        let logits =
            |output: &RowOutput<'_>| if let RowOutput::Logits(logits) = output { logits.len() } else { 0 };
        self.outputs.iter().map(logits).sum()
    }
}

/// Chooses the tokens of each request on up to `threads` threads, in contexts of `n_ctx` tokens. The result does not depend on
/// the number of threads.
pub(crate) fn choose_all(all: &mut [Rows<'_>], threads: usize, n_ctx: usize, now: Instant) {
    let (mut sampled, done): (Vec<_>, Vec<_>) = all.iter_mut().partition(|rows| rows.logits() > 0);
    done.into_iter().for_each(|rows| rows.choose(n_ctx, now));
    let logits: usize = sampled.iter().map(|rows| rows.logits()).sum();
    share(&mut sampled, if logits < MIN_LOGITS { 1 } else { threads }, |rows| rows.choose(n_ctx, now));
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
