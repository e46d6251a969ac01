//! SentencePiece's model files: the messages of `sentencepiece_model.proto` in protobuf's wire format.
//!
//! Reads the pieces and the few settings that a GGUF file holds, and skips all other fields.

use std::collections::HashSet;
use std::path::Path;

use super::vocabulary::{MAX_TOKENS, TokenType};
use crate::error::{Error, invalid};

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) pieces: Vec<Piece>,
    pub(super) is_unigram: bool,
    pub(super) precompiled_charsmap: Vec<u8>,
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
}

#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: TokenType,
}

impl Model {
    pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Model, Error> {
        let mut model = Model {
            is_unigram: true,
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            ..Model::default()
        };
        const EXPECTED: &str = "the messages of a SentencePiece model (is this another kind of file?)";
        let damaged = |place: &str| invalid(path, place, "damaged", EXPECTED);
        let mut texts = HashSet::new();
        let mut message = Message(bytes);
        while let Some((field, value)) = message.next().ok_or_else(|| damaged("the message `ModelProto`"))? {
            match (field, value) {
                (1, Value::Bytes(piece)) => {
                    let id = model.pieces.len();
                    if id == MAX_TOKENS {
                        let expected = format!("at most {MAX_TOKENS} pieces");
                        return Err(invalid(path, "the list of pieces", "longer", expected));
                    }
                    let piece = Piece::read(piece).ok_or_else(|| damaged(&format!("piece {id}")))?;
                    if piece.text.is_empty() {
                        return Err(invalid(path, format!("piece {id}"), "empty", "a text"));
                    }
                    if !texts.insert(piece.text.clone()) {
                        let found = format!("a second {:?}", piece.text);
                        return Err(invalid(path, format!("piece {id}"), found, "different texts"));
                    }
                    model.pieces.push(piece);
                }
                (2, Value::Bytes(trainer)) => {
                    let read = model.read_trainer(trainer);
                    read.ok_or_else(|| damaged("the message `TrainerSpec`"))?;
                }
                (3, Value::Bytes(normalizer)) => {
                    let read = model.read_normalizer(normalizer);
                    read.ok_or_else(|| damaged("the message `NormalizerSpec`"))?;
                }
                _ => {}
            }
        }
        if model.pieces.is_empty() {
            return Err(invalid(path, "the list of pieces", "empty", "the vocabulary"));
        }
        Ok(model)
    }

    fn read_trainer(&mut self, bytes: &[u8]) -> Option<()> {
        let mut message = Message(bytes);
        while let Some((field, value)) = message.next()? {
            if let (3, Value::Number(model_type)) = (field, value) {
                self.is_unigram = model_type == 1;
            }
        }
        Some(())
    }

    fn read_normalizer(&mut self, bytes: &[u8]) -> Option<()> {
        let mut message = Message(bytes);
        while let Some((field, value)) = message.next()? {
            match (field, value) {
                (2, Value::Bytes(charsmap)) => self.precompiled_charsmap = charsmap.to_vec(),
                (3, Value::Number(flag)) => self.add_dummy_prefix = flag != 0,
                (4, Value::Number(flag)) => self.remove_extra_whitespaces = flag != 0,
                _ => {}
            }
        }
        Some(())
    }
}

impl Piece {
    fn read(bytes: &[u8]) -> Option<Piece> {
        let mut piece = Piece { text: String::new(), score: 0.0, kind: TokenType::Normal };
        let mut message = Message(bytes);
        while let Some((field, value)) = message.next()? {
            match (field, value) {
                (1, Value::Bytes(text)) => piece.text = String::from_utf8(text.to_vec()).ok()?,
                (2, Value::Word(score)) => piece.score = f32::from_bits(score),
                (3, Value::Number(kind)) => {
                    // llama.cpp's converter keeps user-defined pieces as normal ones.
                    piece.kind = match kind {
                        1 | 4 => TokenType::Normal,
                        2 => TokenType::Unknown,
                        3 => TokenType::Control,
                        5 => TokenType::Unused,
                        6 => TokenType::Byte,
                        _ => return None,
                    }
                }
                _ => {}
            }
        }
        Some(piece)
    }
}

struct Message<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Word(u32),
    Other,
}

impl<'a> Message<'a> {
    /// Number and value of the next field, if there is one; `None` if the bytes are no message.
    fn next(&mut self) -> Option<Option<(u64, Value<'a>)>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Other
            }
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Word(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some(Some((tag >> 3, value)))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}
