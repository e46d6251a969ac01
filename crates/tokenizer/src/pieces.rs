//! The bytes that tokens stand for.

use crate::alphabet::Alphabet;
use crate::model::Model;
use crate::vocab::{ByteStrings, Kind, Vocab, byte_written};

/// By id, the bytes that a token stands for.
pub(crate) fn piece_bytes(vocab: &Vocab, model: &Model) -> ByteStrings {
    let alphabet = Alphabet::new();
    let mut pieces = ByteStrings::with_capacity(vocab.len());
    for (_, text, kind) in vocab.iter() {
        match (kind, model) {
            (Kind::Control | Kind::Unknown | Kind::UserDefined, _) => pieces.push(text.as_bytes()),
            (Kind::Byte, _) => pieces.push(byte_written(text).as_slice()),
            (Kind::Normal, Model::SentencePiece(_)) => pieces.push(text.replace('▁', " ").as_bytes()),
            (Kind::Normal, Model::BytePair(_)) => match alphabet.decode(text) {
                Some(bytes) => pieces.push(&bytes),
                None => pieces.push(text.as_bytes()),
            },
            // As in llama.cpp, tokens without a use stand for nothing.
            (Kind::Unused | Kind::Undefined, _) => pieces.push(&[]),
        }
    }
    pieces
}
