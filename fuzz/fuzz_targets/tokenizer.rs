//! See `fuzz/bodies/tokenizer.rs`.
//!
//!     cargo +nightly fuzz run tokenizer -- -max_len=4096 -max_total_time=120
#![no_main]

#[path = "../bodies/tokenizer.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::tokenize(data));
