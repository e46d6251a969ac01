//! Any bytes as a trace: refused with a message, or every value can be read whole and row by row.
//!
//!     cargo +nightly fuzz run trace -- -max_len=65536 -max_total_time=120
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;
use trace::Trace;

fuzz_target!(|data: &[u8]| {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(data).expect("room for it");
    let trace = match Trace::open(file.path()) {
        Ok(trace) => trace,
        Err(error) => return assert!(error.to_string().contains(": ")),
    };
    for shape in trace.values() {
        let values = trace.read(&shape.name).expect("what was listed can be read");
        assert_eq!(values.len(), shape.rows * shape.cols);
        let last = trace.read_rows(&shape.name, shape.rows - 1..shape.rows).expect("the last row");
        assert!(last.iter().map(|x| x.to_bits()).eq(values[values.len() - shape.cols..].iter().map(|x| x.to_bits())));
        assert!(trace.read_rows(&shape.name, 0..shape.rows + 1).is_err());
    }
});
