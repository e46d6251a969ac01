//! Writes the tokenizer of a checkpoint to a GGUF file, for `tools/checks/hf_tokenizers.py`.

mod kinds;

use std::path::Path;

use anyhow::{Context, bail};
use convert::tokenizer;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, kind, out] = args.as_slice() else { bail!("expected FOLDER KIND OUT.gguf") };
    let folder = Path::new(folder);
    let config = std::fs::read(folder.join("config.json")).context("cannot read config.json")?;
    let metadata = tokenizer::read(folder, kinds::kind(kind), &serde_json::from_slice(&config)?, None)?;
    gguf::write(std::fs::File::create(out)?, &metadata, [])?;
    Ok(())
}
