//! `cargo run -p rustorch-convert --example convert -- FOLDER FILE [TYPE [PRE-TOKENIZER]]`: a checkpoint to a file. For an adapter, the
//! last is the folder of its model.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use convert::{Adapter, Checkpoint, Options, Plan};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(file)) = (args.next(), args.next()) else {
        return Err("give a folder and a file".into());
    };
    let file_type = args.next().map(|name| name.parse()).transpose()?;
    if Adapter::is_in(folder.as_ref()) {
        let base = args.next().ok_or("give the folder of the adapter's model, too")?;
        let adapter = Adapter::open(folder, base)?;
        adapter.plan(None, file_type)?.write(BufWriter::new(File::create(file)?), &|_| ())?;
        return Ok(());
    }
    let checkpoint = Checkpoint::open(folder)?;
    let plan =
        Plan::new(&checkpoint, &Options { file_type, pre_tokenizer: args.next(), ..Options::default() })?;
    plan.write(BufWriter::new(File::create(file)?), &|_| ())?;
    Ok(())
}
