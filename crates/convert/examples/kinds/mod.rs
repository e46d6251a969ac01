//! The kinds of tokenizers by name, for examples and tests.

use convert::tokenizer::Kind;

/// # Panics
/// If there is no such kind.
pub(crate) fn kind(name: &str) -> Kind {
    match name {
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
        other => panic!("no kind {other}"),
    }
}
