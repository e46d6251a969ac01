//! `cargo run -p rustorch-convert --example convert -- FOLDER FILE [TYPE [PRE-TOKENIZER]]`: a checkpoint to a file.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use convert::{Checkpoint, Options, Plan};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(file)) = (args.next(), args.next()) else {
        return Err("give a folder and a file".into());
    };
    let file_type =
        args.next().map(|name| name.parse().map_err(|()| format!("unknown type {name}"))).transpose()?;
    let checkpoint = Checkpoint::open(folder)?;
    let plan =
        Plan::new(&checkpoint, &Options { file_type, pre_tokenizer: args.next(), ..Options::default() })?;
    plan.write(BufWriter::new(File::create(file)?), &|_| ())?;
    Ok(())
}
