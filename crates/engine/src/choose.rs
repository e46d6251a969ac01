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
            RowOutput::Chosen(..) | RowOutput::Token(_) => 0,
        }
    }
}

/// Chooses the token of each row. Each depends on its own row and request alone, whoever chooses it.
pub(crate) fn choose_all(rows: &mut [Row<'_>]) {
    let (mut sampled, others): (Vec<&mut Row>, Vec<&mut Row>) =
        rows.iter_mut().partition(|row| row.logits() > 0);
    others.into_iter().for_each(Row::choose);
    let logits: usize = sampled.iter().map(|row| row.logits()).sum();
    let threads = match sampled.len() {
        0 | 1 => 1,
        _ if logits < MIN_LOGITS => 1,
        rows => available_parallelism().map_or(1, NonZero::get).min(rows),
    };
    let share = sampled.len().div_ceil(threads).max(1);
    let mut shares = sampled.chunks_mut(share);
    let own = shares.next();
    thread::scope(|scope| {
        for share in shares {
            scope.spawn(|| share.iter_mut().for_each(|row| row.choose()));
        }
        own.into_iter().flatten().for_each(|row| row.choose());
    });
}
