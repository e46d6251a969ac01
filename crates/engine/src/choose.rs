//! Choosing tokens for all rows of a step, in parallel where that is worth it.

use std::num::NonZero;
use std::thread::{self, available_parallelism};

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

/// Chooses the token of each row. Each depends on its own row and request alone, whoever chooses it.
pub(crate) fn choose_all(rows: &mut [Row<'_>]) {
    let (mut sampled, mut logits) = (0, 0);
    for row in &*rows {
        sampled += usize::from(row.logits() > 0);
        logits += row.logits();
    }
    let threads = match sampled {
        0 | 1 => 1,
        _ if logits < MIN_LOGITS => 1,
        sampled => available_parallelism().map_or(1, NonZero::get).min(sampled),
    };
    share(rows, threads, Row::choose);
}

/// Does `each` with all `items`, which `threads` threads share, the caller among them.
fn share<T: Send>(items: &mut [T], threads: usize, each: impl Fn(&mut T) + Sync) {
    if threads <= 1 {
        return items.iter_mut().for_each(each);
    }
    let each = &each;
    let mut shares = items.chunks_mut(items.len().div_ceil(threads).max(1));
    let own = shares.next();
    thread::scope(|scope| {
        for share in shares {
            scope.spawn(move || share.iter_mut().for_each(each));
        }
        own.into_iter().flatten().for_each(each);
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
