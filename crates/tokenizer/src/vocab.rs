//! The tokens of a file: text and kind, and finding tokens by their bytes.

use gguf::Metadata;
use hashbrown::HashMap;

use crate::Error;

/// What a token is for (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of text.
    Normal,
    /// Stands for what the vocabulary cannot spell.
    Unknown,
    /// A mark such as the end of a turn. Typed text never becomes one.
    Control,
    /// A text that is one token wherever it appears.
    UserDefined,
    /// Has no use.
    Unused,
    /// One byte, written as `<0x0A>`.
    Byte,
    /// The file does not say.
    Undefined,
}

impl Kind {
    fn from_number(number: i32) -> Kind {
        match number {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Undefined,
        }
    }

    /// Whether such a token can come out of merging. Marks and bytes cannot: otherwise text that
    /// happens to spell one would become it.
    pub(crate) fn is_mergeable(self) -> bool {
        matches!(self, Kind::Normal | Kind::UserDefined | Kind::Unused | Kind::Undefined)
    }

    /// Whether such a token is found in text only when special tokens are parsed, and left out when decoding.
    pub fn is_special(self) -> bool {
        matches!(self, Kind::Control | Kind::Unknown)
    }
}

/// Texts and kinds by id.
pub(crate) struct Vocab {
    pub(crate) texts: Vec<String>,
    pub(crate) kinds: Vec<Kind>,
}

impl Vocab {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Result<Vocab, Error> {
        const TOKENS: &str = "tokenizer.ggml.tokens";
        const TYPES: &str = "tokenizer.ggml.token_type";
        let texts = metadata.strings(TOKENS)?.ok_or(Error::Missing { key: TOKENS })?.to_vec();
        if texts.is_empty() {
            return Err(Error::EmptyVocabulary);
        }
        // Half of the 32-bit ids are kept for symbols that are not tokens.
        if i32::try_from(texts.len()).is_err() {
            return Err(Error::TooManyTokens { found: texts.len() });
        }
        let kinds = match metadata.i32s(TYPES)? {
            None => vec![Kind::Normal; texts.len()],
            Some(numbers) if numbers.len() == texts.len() => {
                numbers.iter().map(|&number| Kind::from_number(number)).collect()
            }
            Some(numbers) => {
                return Err(Error::Length { key: TYPES, found: numbers.len(), expected: texts.len() });
            }
        };
        Ok(Vocab { texts, kinds })
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Ids, texts and kinds in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str, Kind)> {
        (0..).zip(&self.texts).zip(&self.kinds).map(|((id, text), &kind)| (id, text.as_str(), kind))
    }
}

/// Ids by text. Of tokens with the same text the last counts, as in llama.cpp.
pub(crate) fn ids_by_text(texts: &[String]) -> HashMap<&str, u32> {
    texts.iter().map(String::as_str).zip(0..).collect()
}

/// Ids by bytes.
#[derive(Default)]
pub(crate) struct Pieces {
    ids: HashMap<Box<[u8]>, u32>,
    longest: usize,
}

impl Pieces {
    /// Adds a piece; of pieces with the same bytes the last counts.
    pub(crate) fn insert(&mut self, bytes: Box<[u8]>, id: u32) {
        self.longest = self.longest.max(bytes.len());
        self.ids.insert(bytes, id);
    }

    pub(crate) fn get(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest { None } else { self.ids.get(bytes).copied() }
    }
}
