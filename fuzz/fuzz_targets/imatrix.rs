//! The reader of imatrix files on any bytes: an error that says something, or finite weights that are not negative.
//!
//!     cargo +nightly fuzz run imatrix -- -max_len=65536 -max_total_time=120
#![no_main]

use libfuzzer_sys::fuzz_target;
use convert::imatrix::Imatrix;

fuzz_target!(|data: &[u8]| match Imatrix::from_bytes(data) {
    Err(why) => assert!(!why.is_empty()),
    Ok(imatrix) => {
        assert!(imatrix.names().len() > 0);
        for name in imatrix.names() {
            let columns = imatrix.get(name).expect("it is named");
            assert!(columns.iter().all(|weight| weight.is_finite() && *weight >= 0.0));
        }
    }
});
