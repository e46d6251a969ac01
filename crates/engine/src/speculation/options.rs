//! Options of speculative decoding.

use backend::KV_BLOCK;

use crate::Error;

/// Options of speculative decoding. Without a draft model, the drafts are what followed the last tokens where they occurred
/// before in the request: in the prompt, or in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speculation {
    /// Maximum number of drafted tokens in a step, from 1 to 31, of all requests together: each has an equal share.
    /// Requests of which few drafted tokens were accepted have fewer, or pause.
    pub n_max: usize,
    /// Minimum number of drafted tokens of a request, at most `n_max`; a shorter draft is not used.
    pub n_min: usize,
}

impl Default for Speculation {
    /// A step of up to eight rows, whose weights the CPU reads but once.
    fn default() -> Speculation {
        Speculation { n_max: 7, n_min: 0 }
    }
}

impl Speculation {
    /// Maximum rows of a step with drafted tokens. All of them can be output rows.
    pub(crate) fn rows(&self, n_batch: usize) -> usize {
        (self.n_max + 1).min(n_batch)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        // More could cross two ends of blocks, for which windows have no room.
        if !(1..KV_BLOCK).contains(&self.n_max) {
            return Err(Error::Option {
                name: "n_max",
                value: self.n_max,
                expected: "a number from 1 to 31",
            });
        }
        if self.n_min > self.n_max {
            return Err(Error::Option { name: "n_min", value: self.n_min, expected: "at most `n_max`" });
        }
        Ok(())
    }
}
