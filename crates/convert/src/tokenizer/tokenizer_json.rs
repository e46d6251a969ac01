//! `tokenizer.json`, as far as the metadata depends on it. What encodes text is read by the library `tokenizers`.

use std::fmt;
use std::path::Path;

use base64::Engine;
use gguf::quoted;
use indexmap::IndexMap;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::vocabulary::MAX_TOKENS;
use crate::error::{Error, invalid};

#[derive(Debug, Deserialize)]
pub(super) struct TokenizerJson {
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    pub(super) normalizer: Option<Normalizer>,
    pub(super) pre_tokenizer: Option<PreTokenizer>,
    pub(super) post_processor: Option<PostProcessor>,
    pub(super) decoder: Option<Decoder>,
    pub(super) model: Model,
}

#[derive(Debug, Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) special: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Decoder {
    pub(super) r#type: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Normalizer {
    pub(super) r#type: String,
    #[serde(default)]
    pub(super) normalizers: Vec<Normalizer>,
    pub(super) pattern: Option<Pattern>,
    pub(super) content: Option<String>,
    pub(super) precompiled_charsmap: Option<String>,
    pub(super) lowercase: Option<bool>,
    pub(super) strip_accents: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PreTokenizer {
    pub(super) r#type: String,
    #[serde(default)]
    pub(super) pretokenizers: Vec<PreTokenizer>,
    pub(super) pattern: Option<Pattern>,
    pub(super) behavior: Option<String>,
    #[serde(default)]
    pub(super) invert: bool,
    pub(super) use_regex: Option<bool>,
    pub(super) individual_digits: Option<bool>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Pattern {
    Regex(String),
    String(String),
}

#[derive(Debug, Deserialize)]
pub(super) struct PostProcessor {
    pub(super) r#type: Option<String>,
    pub(super) processors: Option<Vec<PostProcessor>>,
    /// Text and id.
    pub(super) cls: Option<(String, u32)>,
    pub(super) sep: Option<(String, u32)>,
    #[serde(default)]
    pub(super) single: Vec<Part>,
    #[serde(default)]
    pub(super) pair: Vec<Part>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) enum Part {
    SpecialToken { id: String },
    Sequence { id: String },
}

impl Part {
    pub(super) fn token(&self) -> Option<&str> {
        match self {
            Part::SpecialToken { id } => Some(id),
            Part::Sequence { .. } => None,
        }
    }

    pub(super) fn is_sequence(&self, name: &str) -> bool {
        matches!(self, Part::Sequence { id } if id == name)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Model {
    pub(super) r#type: Option<String>,
    pub(super) vocab: Vocab,
    #[serde(default)]
    pub(super) merges: Merges,
    pub(super) unk_id: Option<u32>,
    pub(super) byte_fallback: Option<bool>,
    pub(super) ignore_merges: Option<bool>,
}

impl Model {
    pub(super) fn is(&self, name: &str) -> bool {
        self.r#type.as_deref() == Some(name)
    }
}

#[derive(Debug)]
pub(super) enum Vocab {
    /// Of BPE and WordPiece.
    Ids(IndexMap<String, u32>),
    /// Of unigram: tokens and scores, by id.
    Scores(Vec<(String, f64)>),
}

/// The merges of BPE, as `left right`.
#[derive(Debug, Default)]
pub(super) struct Merges(pub(super) Vec<String>);

impl TokenizerJson {
    /// Checks that ids are within bounds and differ.
    pub(super) fn check(&self, path: &Path) -> Result<(), Error> {
        let most = || format!("an id below {MAX_TOKENS}");
        if let Vocab::Ids(vocab) = &self.model.vocab {
            let mut texts: Vec<Option<&str>> = Vec::new();
            for (text, &id) in vocab {
                let id = id as usize;
                let place = || format!("the id of {} in `model.vocab`", quoted(text));
                if id >= MAX_TOKENS {
                    return Err(invalid(path, place(), id, most()));
                }
                texts.resize(texts.len().max(id + 1), None);
                if let Some(other) = texts[id].replace(text) {
                    let expected = format!("an id that no other token has; {} has the same", quoted(other));
                    return Err(invalid(path, place(), id, expected));
                }
            }
        }
        if let Some(charsmap) = self.normalizer.as_ref().and_then(Normalizer::charsmap) {
            let decoded = base64::engine::general_purpose::STANDARD.decode(charsmap);
            let found = match &decoded {
                Err(error) => Some(error.to_string()),
                Ok(bytes) if !is_charsmap(bytes) => Some(format!("{} bytes of another kind", bytes.len())),
                Ok(_) => None,
            };
            if let Some(found) = found {
                let expected = "a trie and replacements in base 64";
                return Err(invalid(path, "`precompiled_charsmap`", found, expected));
            }
        }
        for added in &self.added_tokens {
            if added.id as usize >= MAX_TOKENS {
                let place = format!("the id of {} in `added_tokens`", quoted(&added.content));
                return Err(invalid(path, place, added.id, most()));
            }
        }
        Ok(())
    }
}

impl Normalizer {
    /// The normalisation of SentencePiece, in base 64.
    pub(super) fn charsmap(&self) -> Option<&str> {
        let own = self.precompiled_charsmap.as_deref();
        own.or_else(|| self.normalizers.iter().find_map(Normalizer::charsmap))
    }
}

/// Whether `bytes` have the layout of SentencePiece's: the length of a trie of 32-bit units, the trie, and text.
fn is_charsmap(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk() else { return false };
    let length = u32::from_le_bytes(*length) as usize;
    let parts = rest.split_at_checked(length).filter(|_| length.is_multiple_of(4));
    parts.is_some_and(|(_, text)| std::str::from_utf8(text).is_ok())
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vocab, D::Error> {
        struct VocabVisitor;

        impl<'de> Visitor<'de> for VocabVisitor {
            type Value = Vocab;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of ids, or an array of tokens and scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut ids = IndexMap::new();
                while let Some((text, id)) = map.next_entry()? {
                    ids.insert(text, id);
                    bounded(ids.len())?;
                }
                Ok(Vocab::Ids(ids))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
                let mut scores = Vec::new();
                while let Some(token) = seq.next_element()? {
                    scores.push(token);
                    bounded(scores.len())?;
                }
                Ok(Vocab::Scores(scores))
            }
        }
        deserializer.deserialize_any(VocabVisitor)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Merges, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a merge as `left right` or [left, right]")]
        enum Merge {
            Text(String),
            Pair(String, String),
        }
        struct MergesVisitor;

        impl<'de> Visitor<'de> for MergesVisitor {
            type Value = Merges;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an array of merges")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Merges, E> {
                Ok(Merges::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merges, A::Error> {
                let mut merges = Vec::new();
                while let Some(merge) = seq.next_element()? {
                    merges.push(match merge {
                        Merge::Text(text) => text,
                        // A space within a part is written as GPT-2's byte alphabet writes it.
                        Merge::Pair(left, right) => {
                            format!("{} {}", left.replace(' ', "Ġ"), right.replace(' ', "Ġ"))
                        }
                    });
                    bounded(merges.len())?;
                }
                Ok(Merges(merges))
            }
        }
        deserializer.deserialize_any(MergesVisitor)
    }
}

fn bounded<E: de::Error>(count: usize) -> Result<(), E> {
    if count > MAX_TOKENS {
        return Err(E::custom(format_args!("more than {MAX_TOKENS} entries, which no model has")));
    }
    Ok(())
}
