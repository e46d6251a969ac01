//! What is said of a context that does not fit.

use backend::{Memory, readable_size as size};

/// A context that was refused before anything was allocated.
#[derive(Debug, thiserror::Error)]
#[error(
    "a context of {asked} tokens needs {}: the KV cache {}, weights {}, activations {}; {} are {}",
    size(total(needed)), size(needed.kv), size(needed.weights_owned), size(needed.activations), size(*limit),
    if *is_limited { "allowed" } else { "free" }
)]
pub(crate) struct ContextTooLarge {
    pub(super) asked: usize,
    pub(super) needed: Memory,
    /// Bytes that are free, or those of `--memory`.
    pub(super) limit: u64,
    pub(super) is_limited: bool,
    /// The largest context that fits.
    pub(super) fitting: usize,
    /// The same with K and V in Q8_0, if that is more.
    pub(super) fitting_in_q8_0: Option<usize>,
}

impl ContextTooLarge {
    pub(crate) fn advice(&self) -> String {
        let ContextTooLarge { fitting, fitting_in_q8_0, is_limited, .. } = self;
        let quantised = fitting_in_q8_0
            .map_or_else(String::new, |more| format!("; with -ctk q8_0 -ctv q8_0 it is -c {more}"));
        let memory = if *is_limited { "allows more" } else { "allows more than what is free" };
        format!("the largest context that fits is -c {fitting}{quantised}; --memory SIZE {memory}")
    }
}

/// Bytes that are allocated besides the file.
pub(super) fn total(memory: &Memory) -> u64 {
    memory.weights_owned.saturating_add(memory.kv).saturating_add(memory.activations)
}
