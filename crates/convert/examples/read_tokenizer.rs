//! Writes the tokenizer of a checkpoint to a GGUF file, for `tools/checks/hf_tokenizers.py`.

use std::path::Path;

use anyhow::{Context, bail};
use convert::tokenizer::{self, Kind};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, kind, out] = args.as_slice() else { bail!("expected FOLDER KIND OUT.gguf") };
    let kind = match kind.as_str() {
        "Bpe" => Kind::Bpe,
        "PaddedBpe" => Kind::PaddedBpe(8),
        "SentencePieceOrBpe" => Kind::SentencePieceOrBpe,
        "Llama" => Kind::Llama,
        "Mamba2" => Kind::Mamba2(16),
        "Gemma2" => Kind::Gemma2,
        "Gemma3" => Kind::Gemma3,
        "Gemma4" => Kind::Gemma4,
        "Ernie" => Kind::Ernie,
        "Phi3" => Kind::Phi3,
        "Glm4" => Kind::Glm4,
        "Glm4Moe" => Kind::Glm4Moe,
        "ModernBert" => Kind::ModernBert,
        "WordPiece" => Kind::WordPiece,
        "Roberta" => Kind::Roberta,
        "Unigram" => Kind::Unigram,
        "NomicBert" => Kind::NomicBert,
        "JinaBertV2" => Kind::JinaBertV2,
        other => bail!("unknown kind {other}"),
    };
    let folder = Path::new(folder);
    let config = std::fs::read(folder.join("config.json")).context("cannot read config.json")?;
    let metadata = tokenizer::read(folder, kind, &serde_json::from_slice(&config)?, None)?;
    gguf::write(std::fs::File::create(out)?, &metadata, [])?;
    Ok(())
}
