//! The vocabulary: texts and kinds of tokens, and token lookup by bytes.

use std::hash::BuildHasher;

use gguf::Metadata;
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};

use crate::Error;

pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";

/// Maximum number of tokens, and of merges: twice as many as real models have.
pub(crate) const MAX_STRINGS: usize = 1 << 20;

/// Maximum length in bytes of a token that text is searched for. It is ten times the length of real ones, and the search takes at
/// most this many steps per byte of text.
const MAX_TOKEN_BYTES: usize = 1024;

/// Maximum total length of these strings in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The strings at `key`, limited in number and length.
pub(crate) fn strings<'a>(metadata: &'a Metadata, key: &'static str) -> Result<&'a [String], Error> {
    let strings = metadata.strings(key)?.ok_or(Error::Missing { key })?;
    let too_large = |found, unit, most| Err(Error::TooLarge { key, found, unit, most });
    if strings.len() > MAX_STRINGS {
        return too_large(strings.len(), "strings", MAX_STRINGS);
    }
    match strings.iter().map(String::len).sum() {
        bytes if bytes > MAX_BYTES => too_large(bytes, "bytes of text", MAX_BYTES),
        _ => Ok(strings),
    }
}

/// The scores of `n_tokens` tokens; none if the file has none.
pub(crate) fn scores(metadata: &Metadata, n_tokens: usize) -> Result<Option<&[f32]>, Error> {
    const SCORES: &str = "tokenizer.ggml.scores";
    let Some(scores) = metadata.f32s(SCORES)? else { return Ok(None) };
    if scores.len() != n_tokens {
        return Err(Error::Length { key: SCORES, found: scores.len(), expected: n_tokens });
    }
    match scores.iter().position(|score| score.is_nan()) {
        Some(index) => Err(Error::BadScore { index }),
        None => Ok(Some(scores)),
    }
}

/// Kind of a token (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any other number.
    Undefined = 0,
    /// Text.
    Normal = 1,
    /// Replaces text that the vocabulary cannot encode.
    Unknown,
    /// A special token such as the end of a turn; user input is never encoded as one.
    Control,
    /// Text that is always this token.
    UserDefined,
    /// Unused.
    Unused,
    /// One byte, written as `<0x0A>`.
    Byte,
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

    /// Whether merging can produce such a token. It must not produce special tokens and bytes from text that spells
    /// them.
    pub(crate) fn is_mergeable(self) -> bool {
        matches!(self, Kind::Normal | Kind::UserDefined | Kind::Unused | Kind::Undefined)
    }

    /// Whether such a token is parsed only on request, and omitted when decoding.
    pub fn is_special(self) -> bool {
        matches!(self, Kind::Control | Kind::Unknown)
    }
}

pub(crate) struct Vocab {
    texts: ByteStrings,
    pub(crate) kinds: Vec<Kind>,
}

impl Vocab {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Result<Vocab, Error> {
        const TYPES: &str = "tokenizer.ggml.token_type";
        let tokens = strings(metadata, TOKENS)?;
        if tokens.is_empty() {
            return Err(Error::EmptyVocabulary);
        }
        let kinds = match metadata.i32s(TYPES)? {
            None => vec![Kind::Normal; tokens.len()],
            Some(numbers) if numbers.len() == tokens.len() => {
                numbers.iter().map(|&number| Kind::from_number(number)).collect()
            }
            Some(numbers) => {
                return Err(Error::Length { key: TYPES, found: numbers.len(), expected: tokens.len() });
            }
        };
        let mut texts = ByteStrings::with_capacity(tokens.len());
        tokens.iter().for_each(|text| texts.push(text.as_bytes()));
        Ok(Vocab { texts, kinds })
    }

    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Bytes of the longest text; at least 1.
    pub(crate) fn longest_text(&self) -> usize {
        let starts = std::iter::once(&0).chain(&self.texts.ends);
        let lengths = self.texts.ends.iter().zip(starts).map(|(end, start)| (end - start) as usize);
        lengths.max().unwrap_or(0).max(1)
    }

    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        std::str::from_utf8(self.texts.get(id)?).ok()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str, Kind)> {
        (0..).zip(&self.kinds).filter_map(|(id, &kind)| Some((id, self.text(id)?, kind)))
    }
}

/// The last of tokens with the same text, sorted by text.
pub(crate) fn last_of_each_text(mut tokens: Vec<(&str, u32)>) -> Vec<(&str, u32)> {
    tokens.sort_unstable_by(|(a, i), (b, j)| a.cmp(b).then(j.cmp(i)));
    tokens.dedup_by_key(|(text, _)| *text);
    tokens
}

/// The last of tokens with the same text, sorted by text, without empty ones. Fails if one is too long to search for.
pub(crate) fn searchable<'a>(
    tokens: impl Iterator<Item = (&'a str, u32)>,
) -> Result<Vec<(&'a str, u32)>, Error> {
    let tokens = last_of_each_text(tokens.filter(|(text, _)| !text.is_empty()).collect());
    match tokens.iter().find(|(text, _)| text.len() > MAX_TOKEN_BYTES) {
        Some((text, id)) => Err(Error::LongToken { id: *id, length: text.len(), most: MAX_TOKEN_BYTES }),
        None => Ok(tokens),
    }
}

/// Byte strings by number, stored contiguously: four bytes of overhead each.
#[derive(Default)]
pub(crate) struct ByteStrings {
    bytes: Vec<u8>,
    /// End of each string; the next one starts there.
    ends: Vec<u32>,
}

impl ByteStrings {
    pub(crate) fn with_capacity(strings: usize) -> ByteStrings {
        ByteStrings { bytes: Vec::new(), ends: Vec::with_capacity(strings) }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // A few times `MAX_BYTES`, so never too large.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    pub(crate) fn get(&self, number: u32) -> Option<&[u8]> {
        let number = number as usize;
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start as usize..end as usize)
    }
}

#[derive(Default)]
pub(crate) struct Pieces {
    texts: ByteStrings,
    ids: Vec<u32>,
    /// Text numbers, by the hash of the text.
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
    longest: usize,
}

impl Pieces {
    pub(crate) fn with_capacity(pieces: usize) -> Pieces {
        Pieces { numbers: HashTable::with_capacity(pieces), ..Pieces::default() }
    }

    /// Adds a piece; it replaces one with the same bytes.
    pub(crate) fn insert(&mut self, bytes: &[u8], id: u32) {
        let Pieces { texts, ids, numbers, hasher, longest } = self;
        let same = |&number: &u32| texts.get(number) == Some(bytes);
        let hash = |&number: &u32| hasher.hash_one(texts.get(number).unwrap_or_default());
        match numbers.entry(hasher.hash_one(bytes), same, hash) {
            Entry::Occupied(entry) => ids[*entry.get() as usize] = id,
            Entry::Vacant(entry) => {
                // Ids are 32 bits wide, and there are no more pieces than ids.
                entry.insert(u32::try_from(ids.len()).unwrap_or(u32::MAX));
                ids.push(id);
                texts.push(bytes);
                *longest = bytes.len().max(*longest);
            }
        }
    }

    pub(crate) fn get(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let same = |&number: &u32| self.texts.get(number) == Some(bytes);
        let number = *self.numbers.find(self.hasher.hash_one(bytes), same)?;
        self.ids.get(number as usize).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// A space (U+0020 only) in the texts of tokens that are not in GPT-2's byte alphabet.
pub(crate) const SPACE: char = '▁';

/// The tokens written as `<0x00>` to `<0xFF>`, by byte.
pub(crate) fn byte_tokens(vocab: &Vocab) -> [Option<u32>; 256] {
    let mut tokens = [None; 256];
    for (id, text, _) in vocab.iter() {
        if let Some(byte) = parse_byte(text).filter(|byte| text == format!("<0x{byte:02X}>")) {
            tokens[usize::from(byte)] = Some(id);
        }
    }
    tokens
}

pub(crate) fn parse_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok()
}
