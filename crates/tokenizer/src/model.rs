//! The algorithms, and the bytes of their tokens.

use crate::alphabet::Alphabet;
use crate::bpe::BytePair;
use crate::spm::SentencePiece;
use crate::unigram::Unigram;
use crate::vocab::{ByteStrings, Kind, SPACE, Vocab, parse_byte};
use crate::wordpiece::WordPiece;

pub(crate) enum Model {
    SentencePiece(SentencePiece),
    BytePair(BytePair),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl Model {
    /// Name, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Model::SentencePiece(_) => "SentencePiece",
            Model::BytePair(model) if model.row().characters => "BPE",
            Model::BytePair(_) => "byte-level BPE",
            Model::WordPiece(_) => "WordPiece",
            Model::Unigram(_) => "unigram",
        }
    }

    /// Whether encoding drops or replaces some characters.
    pub(crate) fn normalizes(&self) -> bool {
        matches!(self, Model::WordPiece(_) | Model::Unigram(_))
    }

    fn is_byte_level(&self) -> bool {
        matches!(self, Model::BytePair(model) if !model.row().characters)
    }
}

/// The bytes of each token, by id.
pub(crate) fn token_bytes(vocab: &Vocab, model: &Model) -> ByteStrings {
    let alphabet = Alphabet::new();
    let mut pieces = ByteStrings::with_capacity(vocab.len());
    for (_, text, kind) in vocab.iter() {
        match kind {
            Kind::Control | Kind::Unknown | Kind::UserDefined => pieces.push(text.as_bytes()),
            Kind::Byte => pieces.push(parse_byte(text).as_slice()),
            Kind::Normal if model.is_byte_level() => match alphabet.decode(text) {
                Some(bytes) => pieces.push(&bytes),
                None => pieces.push(text.as_bytes()),
            },
            Kind::Normal => pieces.push(text.replace(SPACE, " ").as_bytes()),
            // As in llama.cpp, unused tokens have no bytes.
            Kind::Unused | Kind::Undefined => pieces.push(&[]),
        }
    }
    pieces
}
