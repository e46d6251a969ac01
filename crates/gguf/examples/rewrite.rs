//! Reads a GGUF file and writes it again: `cargo run -p rustorch-gguf --example rewrite IN OUT`.
//!
//! The output is a single version 3 file, whatever the version and number of input files.

use std::error::Error;
use std::fs::File;

use gguf::Gguf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (args.next(), args.next()) else {
        return Err("usage: rewrite IN OUT".into());
    };
    let gguf = Gguf::open(from)?;
    let size: usize = gguf.tensors().map(|tensor| tensor.data.len()).sum();
    println!("{} tensors, {size} bytes of data", gguf.tensors().len());
    gguf::write(File::create(to)?, gguf.metadata(), gguf.tensors())?;
    gguf.check_intact()?;
    Ok(())
}
