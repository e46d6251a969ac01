//! Errors of tokenizers.

use gguf::quoted;

use crate::pretokenize::pre_tokenizers;

/// Why a file's tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum Error {
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    #[error("metadata key `{key}` is missing: the file has no usable tokenizer")]
    Missing { key: &'static str },
    #[error("metadata key `tokenizer.ggml.tokens` is an empty array, expected the vocabulary")]
    EmptyVocabulary,
    /// More than any real tokenizer has; counting may have stopped at `found`.
    #[error("metadata key `{key}` has {found} {unit}, at most {most} are supported; the file is damaged")]
    TooLarge { key: &'static str, found: usize, unit: &'static str, most: usize },
    #[error(
        "token {id} (metadata key `tokenizer.ggml.tokens`) has {length} bytes, at most {most} are supported; \
         the file is damaged"
    )]
    LongToken { id: u32, length: usize, most: usize },
    #[error("metadata key `{key}` has {found} values for {expected} tokens, expected one each")]
    Length { key: &'static str, found: usize, expected: usize },
    #[error("metadata key `tokenizer.ggml.scores`: the score of token {index} is not a finite number")]
    BadScore { index: usize },
    #[error(
        "tokenizer model {} (metadata key `tokenizer.ggml.model`) is not supported, expected `llama` \
         (SentencePiece), `gpt2` or `gemma4` (BPE), `bert` (WordPiece) or `t5` (unigram)",
        quoted(found)
    )]
    UnsupportedModel { found: String },
    #[error(
        "metadata key `tokenizer.ggml.pre` is {}; supported values: {}",
        quoted(found),
        pre_tokenizers().join(", ")
    )]
    UnsupportedPreTokenizer { found: String },
    #[error("cannot build the pre-tokenizer: {0}")]
    PreTokenizer(#[from] Box<regex_automata::meta::BuildError>),
    #[error(
        "metadata key `tokenizer.ggml.pre` is missing: how to split text before merging is unknown, \
         convert the model again with a current converter"
    )]
    MissingPreTokenizer,
    #[error(
        "merge {index} (metadata key `tokenizer.ggml.merges`) is {}, expected two parts and one space",
        quoted(found)
    )]
    BadMerge { index: usize, found: String },
    #[error("metadata key `{key}` has {found}")]
    BadCharsmap { key: &'static str, found: String },
    #[error("cannot build the search for special tokens: {0}")]
    SpecialTokens(#[from] aho_corasick::BuildError),
}
