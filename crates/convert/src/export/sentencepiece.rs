//! `tokenizer.model`, which holds the scores of a SentencePiece model's tokens.

use std::collections::HashSet;

use tokenizer::Kind;

use super::Error;
use super::vocabulary::Vocabulary;

/// The model; none if the vocabulary is of another kind, or one that SentencePiece would not load.
pub(super) fn model(vocabulary: &Vocabulary) -> Result<Option<Vec<u8>>, Error> {
    let mut texts = HashSet::new();
    let differ = vocabulary.tokens().all(|token| !token.text.is_empty() && texts.insert(token.text));
    if vocabulary.metadata.str("tokenizer.ggml.model")? != Some("llama") || !differ {
        return Ok(None);
    }
    let scores = vocabulary.scores()?;
    let roles = &vocabulary.tokenizer.special_ids().roles;
    let mut model = Message::default();
    for (token, score) in vocabulary.tokens().zip(scores) {
        let kind = match token.kind {
            Kind::Unknown if roles.get("unk") == Some(&token.id) => 2,
            Kind::Control | Kind::Unknown => 3,
            Kind::UserDefined => 4,
            Kind::Unused => 5,
            Kind::Byte => 6,
            Kind::Normal | Kind::Undefined => 1,
        };
        let mut piece = Message::default();
        piece.bytes(1, token.text.as_bytes()).float(2, score).number(3, kind);
        model.bytes(1, &piece.0);
    }
    let mut trainer = Message::default();
    trainer.number(3, 2).number(4, vocabulary.tokenizer.vocab_size() as u64).number(35, 1);
    for (field, role) in [(40, "unk"), (41, "bos"), (42, "eos"), (43, "pad")] {
        // −1: there is none.
        trainer.number(field, roles.get(role).map_or(u64::MAX, |id| (*id).into()));
    }
    let mut normalizer = Message::default();
    let adds_space = vocabulary.tokenizer.facts().add_space_prefix.value();
    normalizer.bytes(1, b"identity").number(3, adds_space.into()).number(4, 0).number(5, 1);
    model.bytes(2, &trainer.0).bytes(3, &normalizer.0);
    Ok(Some(model.0))
}

/// A message in protobuf's wire format.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u64, number: u64) -> &mut Message {
        self.varint(field << 3).varint(number)
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Message {
        self.varint(field << 3 | 2).varint(bytes.len() as u64).0.extend_from_slice(bytes);
        self
    }

    fn float(&mut self, field: u64, number: f32) -> &mut Message {
        self.varint(field << 3 | 5).0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn varint(&mut self, mut number: u64) -> &mut Message {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }
}
