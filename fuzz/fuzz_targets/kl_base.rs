//! The reader of bases on any bytes: an error that says something, or rows of log-probabilities.
//!
//!     cp crates/eval/goldens/perplexity/*.bin fuzz/corpus/kl_base/
//!     cargo +nightly fuzz run kl_base -- -max_len=65536 -max_total_time=120
#![no_main]

use std::io::Cursor;

use eval::base::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match Reader::new("base", Box::new(Cursor::new(data.to_vec())), data.len() as u64) {
        Err(error) => assert!(error.to_string().starts_with("base base: ")),
        Ok(mut base) => {
            let (windows, mut row) = (base.windows().clone(), Vec::new());
            for _ in 0..windows.len() * windows.positions().len() {
                if base.next_row(&mut row).is_err() {
                    break;
                }
                assert!(row.iter().all(|log_prob| log_prob.is_finite() && *log_prob < 1.0));
            }
        }
    }
});
