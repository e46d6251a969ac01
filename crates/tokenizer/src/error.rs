//! What can be wrong with a file's tokenizer.

use gguf::quoted;

use crate::pretokenize::PreTokenizer;

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
    /// A key holds more than any real tokenizer does.
    #[error("metadata key `{key}` holds {found} {unit}, at most {most} are supported; the file is damaged")]
    TooLarge {
        /// The key.
        key: &'static str,
        /// How many were found; counting may have stopped there.
        found: usize,
        /// What is counted, such as `strings`.
        unit: &'static str,
        /// The limit.
        most: usize,
    },
    /// A special or user-defined token is too long to be searched for.
    #[error(
        "token {id} (metadata key `tokenizer.ggml.tokens`) is looked for in text, but it has {length} bytes \
         where at most {most} are supported; the file is damaged"
    )]
    LongToken {
        /// The token.
        id: u32,
        /// Bytes of its text.
        length: usize,
        /// The limit.
        most: usize,
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
        "tokenizer model {} (metadata key `tokenizer.ggml.model`) is not supported, expected `llama` \
         (SentencePiece) or `gpt2` (BPE)",
        quoted(found)
    )]
    UnsupportedModel {
        /// The value of `tokenizer.ggml.model`.
        found: String,
    },
    /// A pre-tokenizer that is not supported.
    #[error(
        "pre-tokenizer {} (metadata key `tokenizer.ggml.pre`) is not supported, expected {} or another name of \
         one of these",
        quoted(found),
        PreTokenizer::known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )]
    UnsupportedPreTokenizer {
        /// The value of `tokenizer.ggml.pre`.
        found: String,
    },
    /// A pattern of a pre-tokenizer is too large for this machine.
    #[error("cannot build the pre-tokenizer: {0}")]
    PreTokenizer(#[from] Box<regex_automata::meta::BuildError>),
    /// A BPE file does not name its pre-tokenizer.
    #[error(
        "metadata key `tokenizer.ggml.pre` is missing: how text is split before merging is unknown, \
         convert the model again with a current converter"
    )]
    MissingPreTokenizer,
    /// A merge rule is not two tokens with a space between.
    #[error(
        "merge {index} (metadata key `tokenizer.ggml.merges`) is {}, expected two parts and one space",
        quoted(found)
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
