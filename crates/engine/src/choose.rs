//! Choosing tokens for all rows of a step, in parallel where that is worth it.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::request_state::{RequestState, RowOutput};
use crate::sampling::{Logprobs, SamplingError};
use crate::scheduler::RequestId;

/// Logits of a step's rows from which on sampling is worth threads: starting one takes some tens of microseconds, as
/// long as some ten thousand logits.
const MIN_LOGITS: usize = 1 << 16;

/// A row whose request goes on with a token.
pub(crate) struct Row<'a> {
    pub(crate) id: RequestId,
    pub(crate) state: Box<RequestState>,
    /// Prompt and generated tokens.
    pub(crate) tokens: &'a [u32],
    pub(crate) output: RowOutput<'a>,
    /// The token, once it is chosen.
    pub(crate) chosen: Option<Result<(u32, Option<Logprobs>), SamplingError>>,
}

impl Row<'_> {
    fn choose(&mut self) {
        self.chosen = Some(self.state.choose(self.output, self.tokens));
    }

    /// How many logits have to be sampled from.
    fn logits(&self) -> usize {
        match self.output {
            RowOutput::Logits(logits) => logits.len(),
            RowOutput::Token(_) => 0,
        }
    }
}

/// Chooses the token of each row, on at most so many threads. A token depends on its own row and request alone, whoever
/// chooses it.
pub(crate) fn choose_all(rows: &mut [Row<'_>], threads: usize) {
    let (mut sampled, done): (Vec<_>, Vec<_>) = rows.iter_mut().partition(|row| row.logits() > 0);
    done.into_iter().for_each(Row::choose);
    let logits: usize = sampled.iter().map(|row| row.logits()).sum();
    share(&mut sampled, if logits < MIN_LOGITS { 1 } else { threads }, |row| row.choose());
}

/// Does `each` with all `items`, which `threads` threads share, the caller among them. Where the system starts no more
/// threads, those that are there do it.
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
