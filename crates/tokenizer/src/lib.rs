//! Tokenizers of GGUF files: SentencePiece, BPE, WordPiece and unigram.
//!
//! A [`Tokenizer`] is read from a file's metadata. It encodes text as llama.cpp does (`llama-vocab.cpp`), and decodes
//! ids all at once ([`Tokenizer::decode`]) or one at a time ([`Detokenizer`]).

mod alphabet;
mod bpe;
mod charsmap;
mod decode;
mod encode;
mod error;
mod finder;
mod merge;
mod prefixes;
mod pretokenize;
mod pretokenizers;
mod special;
mod spm;
mod tokenizer;
mod unigram;
mod vocab;
mod wordpiece;

pub use decode::Detokenizer;
pub use encode::{Encode, Part};
pub use error::Error;
pub use pretokenize::{pre_tokenizer, pre_tokenizer_rows, pre_tokenizers};
pub use pretokenizers::{Bos, Row as PreTokenizerRow};
pub use special::SpecialIds;
pub use tokenizer::{Choice, Facts, Tokenizer};
pub use vocab::Kind;
