//! What can be wrong with a file's tokenizer.

/// Why a file's tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key holds another type than the format says.
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    /// A key is absent.
    #[error("metadata key `{key}` is missing: the file holds no usable tokenizer")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// There are no tokens.
    #[error("metadata key `tokenizer.ggml.tokens` is an empty array, expected the vocabulary")]
    EmptyVocabulary,
    /// There are more tokens than ids.
    #[error("metadata key `tokenizer.ggml.tokens` holds {found} tokens, more than 31 bits can number")]
    TooManyTokens {
        /// Number of tokens.
        found: usize,
    },
    /// An array that goes with the tokens has another length.
    #[error("metadata key `{key}` holds {found} values for {expected} tokens, expected one each")]
    Length {
        /// The key.
        key: &'static str,
        /// Values found.
        found: usize,
        /// Number of tokens.
        expected: usize,
    },
    /// A score that orders nothing.
    #[error("metadata key `tokenizer.ggml.scores`: the score of token {index} is not a number")]
    BadScore {
        /// The token.
        index: usize,
    },
    /// A kind of tokenizer that is not supported.
    #[error(
        "tokenizer model `{found}` (metadata key `tokenizer.ggml.model`) is not supported, expected `llama` \
         (SentencePiece) or `gpt2` (BPE)"
    )]
    UnsupportedModel {
        /// The value of `tokenizer.ggml.model`.
        found: String,
    },
    /// A pre-tokenizer that is not supported.
    #[error(
        "pre-tokenizer `{found}` (metadata key `tokenizer.ggml.pre`) is not supported, expected `llama-bpe`, \
         `qwen2`, `gpt-2` or another name of one of these"
    )]
    UnsupportedPreTokenizer {
        /// The value of `tokenizer.ggml.pre`.
        found: String,
    },
    /// A BPE file does not name its pre-tokenizer.
    #[error(
        "metadata key `tokenizer.ggml.pre` is missing: how text is split before merging is unknown, \
         convert the model again with a current converter"
    )]
    MissingPreTokenizer,
    /// A merge rule is not two tokens with a space between.
    #[error(
        "merge {index} (metadata key `tokenizer.ggml.merges`) is {found:?}, expected two parts and one space"
    )]
    BadMerge {
        /// Place in the array.
        index: usize,
        /// The rule.
        found: String,
    },
    /// The special tokens are too many or too long to search for.
    #[error("cannot build the search for special tokens: {0}")]
    SpecialTokens(#[from] aho_corasick::BuildError),
}
