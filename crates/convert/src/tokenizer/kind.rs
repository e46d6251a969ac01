//! Which of llama.cpp's ways the tokenizer of a model class takes.

/// The way in which the tokenizer of a class of models becomes metadata: `set_vocab` of llama.cpp's converter.
///
/// | class in `architectures` | kind |
/// |---|---|
/// | `LlamaForCausalLM`, `MistralForCausalLM`, `MixtralForCausalLM`, `Mistral3ForConditionalGeneration`, `Ministral3ForCausalLM`, `SmolLM3ForCausalLM`, `GraniteForCausalLM`, `GraniteMoeForCausalLM`, `GraniteMoeSharedForCausalLM` | [`Kind::Llama`] |
/// | `Llama4ForCausalLM`, `Llama4ForConditionalGeneration`, `Qwen2MoeForCausalLM`, `Qwen3MoeForCausalLM`, `Qwen3NextForCausalLM`, `Qwen3_5*`, `Olmo2ForCausalLM`, `Olmo3ForCausalLM`, `CohereForCausalLM`, `Cohere2ForCausalLM`, `Starcoder2ForCausalLM`, `StableLmForCausalLM`, `GptOssForCausalLM`, `DeepseekV2ForCausalLM`, `DeepseekV3ForCausalLM`, `MiniMaxM2ForCausalLM`, `Lfm2ForCausalLM`, `Lfm2MoeForCausalLM`, `FalconH1ForCausalLM` | [`Kind::Bpe`] |
/// | `Qwen2ForCausalLM`, `Qwen3ForCausalLM`, `Qwen3VLForConditionalGeneration` | [`Kind::SentencePieceOrBpe`] |
/// | `Gemma2ForCausalLM` | [`Kind::Gemma2`] |
/// | `Gemma3ForCausalLM`, `Gemma3ForConditionalGeneration`, `Gemma3TextModel` | [`Kind::Gemma3`] |
/// | `Gemma4ForCausalLM`, `Gemma4ForConditionalGeneration`, `Gemma4UnifiedForConditionalGeneration` | [`Kind::Gemma4`] |
/// | `Ernie4_5ForCausalLM`, `Ernie4_5_ForCausalLM` | [`Kind::Ernie`] |
/// | `Phi3ForCausalLM`, `Phi4ForCausalLMV` | [`Kind::Phi3`] |
/// | `Glm4ForCausalLM`, `Glm4vForConditionalGeneration` | [`Kind::Glm4`] |
/// | `Glm4MoeForCausalLM`, `Glm4vMoeForConditionalGeneration`, `Glm4MoeLiteForCausalLM` | [`Kind::Glm4Moe`] |
/// | `SolarOpenForCausalLM` | [`Kind::SolarOpen`] |
/// | `HunYuanMoEV1ForCausalLM` | [`Kind::HunyuanMoe`] |
/// | `Mamba2ForCausalLM` | [`Kind::Mamba2`] with 16 |
/// | `GraniteMoeHybridForCausalLM`, `BambaForCausalLM` | [`Kind::Mamba2`] with 8, or 1 if there are no SSM layers |
/// | `NemotronHForCausalLM` | [`Kind::PaddedBpe`] with 8 |
/// | `BertModel`, `BertForMaskedLM`, `BertForSequenceClassification`, `DistilBert*`, `CamembertModel` | [`Kind::WordPiece`] |
/// | `RobertaModel`, `RobertaForSequenceClassification` | [`Kind::Roberta`] |
/// | `XLMRobertaModel`, `XLMRobertaForSequenceClassification` | [`Kind::Unigram`] |
/// | `NomicBertModel` | [`Kind::NomicBert`] |
/// | `JinaBertModel`, `JinaBertForMaskedLM` | [`Kind::JinaBertV2`] |
/// | `ModernBertModel`, `ModernBertForMaskedLM`, `ModernBertForSequenceClassification` | [`Kind::ModernBert`] |
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
    /// BPE; BOS is `<|startoftext|>`, the end of turn `<|endoftext|>`.
    SolarOpen,
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
