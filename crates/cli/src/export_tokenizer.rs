//! `rustorch export-tokenizer`: a model's tokenizer in Hugging Face's format.

use std::path::PathBuf;

use anyhow::Context;

use crate::args::ModelArgs;
use crate::args::NetworkArgs;
use crate::output::note;
use crate::{interrupt, load};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes tokenizer.json, tokenizer_config.json and config.json, for the Python packages tokenizers and
transformers, and for SentencePiece also tokenizer.model. A tokenizer of which they would make other
tokens is refused.")]
pub(crate) struct Args {
    /// GGUF file or name, as -m MODEL
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Folder to write, which is created
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let file = load::file(&ModelArgs::at(args.model, args.network))?;
    interrupt::install()?;
    let exported = convert::export_tokenizer(&file, &args.folder).with_context(|| file.file().to_owned())?;
    for difference in &exported.differences {
        note(format_args!("note: {difference}"));
    }
    for path in &exported.files {
        note(format_args!("{}: written", path.display()));
    }
    Ok(())
}
