//! The reader on any bytes: it must refuse them with a message, or yield a file whose every part can
//! be touched and that reads the same after it was written again.
//!
//! From the repository's root, with cargo-fuzz installed:
//!
//!     cargo run -p rustorch-testkit --example malformed fuzz/corpus/gguf
//!     cp crates/gguf/goldens/*.gguf fuzz/corpus/gguf/
//!     cargo +nightly fuzz run gguf -- -max_len=65536 -max_total_time=120
#![no_main]

use bytes::Bytes;
use gguf::{Gguf, Layout, write};
use libfuzzer_sys::fuzz_target;

/// An alignment may ask for 2 GiB of padding in a file that has no data.
const MOST_WRITTEN: u64 = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let gguf = match Gguf::from_bytes(Bytes::copy_from_slice(data)) {
        Ok(gguf) => gguf,
        Err(error) => return assert!(error.to_string().contains(": ")),
    };
    gguf.check_intact().expect("bytes in memory are intact");
    for (key, value) in gguf.metadata().iter() {
        assert!(!key.is_empty() && !value.to_string().is_empty());
    }
    let mut layout = Layout::new(gguf.metadata()).expect("keys that were read can be written");
    for tensor in gguf.tensors() {
        std::hint::black_box(tensor.data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
        assert_eq!(tensor.data.len(), tensor.rows() * tensor.row_bytes());
        assert!(tensor.row(tensor.rows() - 1).is_some() && tensor.row(tensor.rows()).is_none());
        layout.tensor(tensor.name.clone(), &tensor.shape, tensor.format).expect("as can tensors");
    }
    if layout.file_len() > MOST_WRITTEN {
        return;
    }

    let written = write(Vec::new(), gguf.metadata(), gguf.tensors()).expect("a vector takes everything");
    let again = Gguf::from_bytes(Bytes::from(written.clone())).expect("what was written can be read");
    assert!(gguf.tensors().eq(again.tensors()));
    // Metadata is compared as bytes: NaN equals nothing.
    let twice = write(Vec::new(), again.metadata(), again.tensors()).expect("once more");
    assert!(written == twice);
});
