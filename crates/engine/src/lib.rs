//! Scheduling, sequences, paged KV bookkeeping, sampling and stop handling.
