//! See `fuzz/bodies/config.rs`.
//!
//!     cargo +nightly fuzz run config -- -max_len=4096 -max_total_time=120
#![no_main]

#[path = "../bodies/config.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::read(data));
