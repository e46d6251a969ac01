//! Chooses the next tokens of a step's rows, in parallel if that pays off.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::request_state::{RequestState, RowOutput};
use crate::sampling::{Logprobs, SamplingError};
use crate::scheduler::RequestId;

/// Logits per step from which sampling uses several threads: starting a thread takes as long as sampling from some
/// ten thousand logits.
const MIN_LOGITS: usize = 1 << 16;

pub(crate) struct Row<'a> {
    pub(crate) id: RequestId,
    pub(crate) state: Box<RequestState>,
    pub(crate) tokens: &'a [u32],
    pub(crate) output: RowOutput<'a>,
    pub(crate) chosen: Option<Result<(u32, Option<Logprobs>), SamplingError>>,
}

impl Row<'_> {
    fn choose(&mut self) {
        self.chosen = Some(self.state.choose(self.output, self.tokens));
    }

    fn logits(&self) -> usize {
        if let RowOutput::Logits(logits) = self.output { logits.len() } else { 0 }
    }
}

/// Chooses the token of each row on up to `threads` threads. The result does not depend on the number of threads.
pub(crate) fn choose_all(rows: &mut [Row<'_>], threads: usize) {
    let (mut sampled, done): (Vec<_>, Vec<_>) = rows.iter_mut().partition(|row| row.logits() > 0);
    done.into_iter().for_each(Row::choose);
    let logits: usize = sampled.iter().map(|row| row.logits()).sum();
    share(&mut sampled, if logits < MIN_LOGITS { 1 } else { threads }, |row| row.choose());
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
