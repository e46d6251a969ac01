//! The algorithms, and the bytes of their tokens.

use crate::alphabet::Alphabet;
use crate::bpe::BytePair;
use crate::spm::SentencePiece;
use crate::vocab::{ByteStrings, Kind, Vocab, parse_byte};

pub(crate) enum Model {
    SentencePiece(SentencePiece),
    BytePair(BytePair),
}

/// The bytes of each token, by id.
pub(crate) fn token_bytes(vocab: &Vocab, model: &Model) -> ByteStrings {
    let alphabet = Alphabet::new();
    let mut pieces = ByteStrings::with_capacity(vocab.len());
    for (_, text, kind) in vocab.iter() {
        match (kind, model) {
            (Kind::Control | Kind::Unknown | Kind::UserDefined, _) => pieces.push(text.as_bytes()),
            (Kind::Byte, _) => pieces.push(parse_byte(text).as_slice()),
            (Kind::Normal, Model::SentencePiece(_)) => pieces.push(text.replace('▁', " ").as_bytes()),
            (Kind::Normal, Model::BytePair(_)) => match alphabet.decode(text) {
                Some(bytes) => pieces.push(&bytes),
                None => pieces.push(text.as_bytes()),
            },
            // As in llama.cpp, unused tokens have no bytes.
            (Kind::Unused | Kind::Undefined, _) => pieces.push(&[]),
        }
    }
    pieces
}
