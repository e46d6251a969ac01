//! Scheduling, sequences, paged KV bookkeeping, sampling and stop handling.

mod pages;
pub mod scheduler;
