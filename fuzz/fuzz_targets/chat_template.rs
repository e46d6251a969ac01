//! See `fuzz/bodies/chat_template.rs`.
//!
//!     cargo +nightly fuzz run chat_template -- -max_len=4096 -max_total_time=120
#![no_main]

#[path = "../bodies/chat_template.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::render(data));
