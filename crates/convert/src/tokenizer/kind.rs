//! Which of llama.cpp's ways the tokenizer of a model class takes.

/// The way in which the tokenizer of a class of models becomes metadata: `set_vocab` of llama.cpp's converter.
/// `crates/convert/src/families` says which class has which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// BPE.
    Bpe,
    /// BPE with a vocabulary whose size is a multiple of this.
    PaddedBpe(u32),
    /// SentencePiece if there is a `tokenizer.model`, else BPE.
    SentencePieceOrBpe,
    /// SentencePiece from `tokenizer.model` or from a `tokenizer.json` with byte fallback, else BPE.
    Llama,
    /// SentencePiece if there is a `tokenizer.model`, else BPE; `pad_vocab_size_multiple` is this unless the
    /// configuration has it.
    Mamba2(u32),
    /// SentencePiece, no space before text.
    Gemma2,
    /// SentencePiece without a space before text if there is a `tokenizer.model`, else BPE.
    Gemma3,
    /// BPE of characters.
    Gemma4,
    /// SentencePiece.
    Ernie,
    /// SentencePiece with the added tokens of all files, or BPE if the tokenizer's class is GPT-2's.
    Phi3,
    /// BPE; BOS, EOS and UNK are `<|endoftext|>`, `<|user|>` ends a turn.
    Glm4,
    /// BPE; BOS is `[gMASK]`, `<|user|>` and `<|observation|>` end a turn or message.
    Glm4Moe,
    /// BPE; BOS is 127959.
    HunyuanMoe,
    /// BPE; BOS, EOS and SEP are added.
    ModernBert,
    /// WordPiece.
    WordPiece,
    /// BPE if there is a `tokenizer.json`, else WordPiece.
    Roberta,
    /// Unigram, of `sentencepiece.bpe.model` or `tokenizer.json`.
    Unigram,
    /// Unigram or WordPiece, whichever `tokenizer.json` has.
    NomicBert,
    /// WordPiece or BPE, by the tokenizer's class.
    JinaBertV2,
}
