//! `rustorch export-tokenizer`, quick to build, for `tools/checks/hf_tokenizers.py`.

use std::path::Path;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, folder] = args.as_slice() else { bail!("expected MODEL.gguf DIR") };
    let exported = convert::export_tokenizer(&gguf::Gguf::open(Path::new(model))?, Path::new(folder))?;
    exported.differences.iter().for_each(|difference| eprintln!("{difference}"));
    Ok(())
}
