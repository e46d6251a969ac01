//! BPE: the bytes or characters of a word are merged by rules, the first rule first.
//!
//! Source: llama.cpp's `llm_tokenizer_bpe`. Pieces of byte-level BPE are stored as bytes instead of GPT-2's byte
//! alphabet, so that text needs no conversion.

use std::borrow::Cow;

use gguf::Metadata;
use hashbrown::HashMap;

use crate::Error;
use crate::alphabet::Alphabet;
use crate::merge::{MAX_WORD, Merger, Symbol};
use crate::pretokenize::PreTokenizer;
use crate::pretokenizers::Row;
use crate::vocab::{MAX_STRINGS, Pieces, SPACE, Vocab, byte_tokens, strings};

/// A character that is neither a token nor a part of a merge, and a byte without a token.
const NO_SYMBOL: u32 = u32::MAX;

pub(crate) struct BytePair {
    pub(crate) pre_tokenizer: PreTokenizer,
    /// Symbols by their bytes: tokens, followed by intermediate results of merges.
    symbols: Pieces,
    /// Symbols of bytes; of a BPE of characters, the tokens `<0x00>` to `<0xFF>`.
    bytes: Box<[u32; 256]>,
    /// Rules: from two symbols to rank and merged symbol.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// Symbols from this number on are not tokens.
    n_tokens: u32,
}

impl BytePair {
    /// `pre_tokenizer` is its name, if the file has one.
    pub(crate) fn new(
        metadata: &Metadata,
        vocab: &Vocab,
        pre_tokenizer: Option<&str>,
    ) -> Result<BytePair, Error> {
        const MERGES: &str = "tokenizer.ggml.merges";
        let name = pre_tokenizer.ok_or(Error::MissingPreTokenizer)?;
        let pre_tokenizer = PreTokenizer::from_name(name)
            .ok_or_else(|| Error::UnsupportedPreTokenizer { found: name.to_owned() })??;
        let characters = pre_tokenizer.row.characters;
        let rules = strings(metadata, MERGES)?;

        let alphabet = Alphabet::new();
        let spelled_by = |text: &str| {
            if characters { Some(text.as_bytes().to_vec()) } else { alphabet.decode(text) }
        };
        // At most `MAX_STRINGS`.
        let n_tokens = u32::try_from(vocab.len()).unwrap_or(u32::MAX);
        let mut table = SymbolTable { symbols: Pieces::with_capacity(vocab.len()), next: n_tokens };
        for (id, text, kind) in vocab.iter() {
            if kind.is_mergeable() && !text.is_empty() {
                // Merging bytes cannot produce text outside the alphabet.
                if let Some(bytes) = spelled_by(text) {
                    table.symbols.insert(&bytes, id);
                }
            }
        }
        let bytes = if characters {
            byte_tokens(vocab).map(|token| token.unwrap_or(NO_SYMBOL))
        } else {
            std::array::from_fn(|byte| table.symbol(&[byte as u8]))
        };

        let mut merges = HashMap::with_capacity(rules.len());
        for (index, (rule, rank)) in rules.iter().zip(0u32..).enumerate() {
            let bad = || Error::BadMerge { index, found: rule.clone() };
            let (left, right) = rule.split_once(' ').ok_or_else(bad)?;
            if left.is_empty() || right.is_empty() || right.contains(' ') {
                return Err(bad());
            }
            if let (Some(mut left), Some(right)) = (spelled_by(left), spelled_by(right)) {
                let parts = (table.symbol(&left), table.symbol(&right));
                left.extend(right);
                // The first of equal rules wins.
                merges.entry(parts).or_insert_with(|| (rank, table.symbol(&left)));
            }
            let others = (table.next - n_tokens) as usize;
            if others > MAX_STRINGS {
                let unit = "parts that are not tokens";
                return Err(Error::TooLarge { key: MERGES, found: others, unit, most: MAX_STRINGS });
            }
        }
        Ok(BytePair { pre_tokenizer, symbols: table.symbols, bytes: Box::new(bytes), merges, n_tokens })
    }

    pub(crate) fn encode(&self, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        let mut encode = |mut word: &str| {
            while !word.is_empty() {
                let (part, rest) = word.split_at(word.floor_char_boundary(MAX_WORD));
                self.encode_word(part, merger, ids);
                word = rest;
            }
        };
        let spelled = if self.row().characters { spelled(text) } else { Cow::Borrowed(text) };
        self.pre_tokenizer.words(&spelled, &mut encode);
    }

    pub(crate) fn row(&self) -> &'static Row {
        self.pre_tokenizer.row
    }

    fn encode_word(&self, word: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        let (row, text) = (self.row(), word);
        let word = text.as_bytes();
        if (row.whole_words || row.whole_newlines && word.iter().all(|&byte| byte == b'\n'))
            && let Some(id) = self.symbols.get(word)
            && id < self.n_tokens
        {
            ids.push(id);
            return;
        }
        if row.characters {
            for (start, c) in text.char_indices() {
                let end = start + c.len_utf8();
                merger.push(self.symbols.get(&word[start..end]).unwrap_or(NO_SYMBOL), end);
            }
        } else {
            for (&byte, end) in word.iter().zip(1..) {
                merger.push(self.bytes[usize::from(byte)], end);
            }
        }
        let join = |left: &Symbol, right: &Symbol| self.merges.get(&(left.id, right.id)).copied();
        merger.merge(join, |symbol| {
            if symbol.id < self.n_tokens {
                ids.push(symbol.id);
            } else {
                // As bytes; a byte without a token is lost, as in llama.cpp.
                let bytes = &word[symbol.range()];
                let tokens = bytes.iter().map(|&byte| self.bytes[usize::from(byte)]);
                ids.extend(tokens.filter(|&id| id < self.n_tokens));
            }
        });
    }
}

/// `text` as in a vocabulary of characters.
fn spelled(text: &str) -> Cow<'_, str> {
    let mut spelled = [0; SPACE.len_utf8()];
    let space: &str = SPACE.encode_utf8(&mut spelled);
    if text.contains(' ') { Cow::Owned(text.replace(' ', space)) } else { Cow::Borrowed(text) }
}

struct SymbolTable {
    symbols: Pieces,
    next: u32,
}

impl SymbolTable {
    fn symbol(&mut self, bytes: &[u8]) -> u32 {
        if let Some(symbol) = self.symbols.get(bytes) {
            return symbol;
        }
        let symbol = self.next;
        self.symbols.insert(bytes, symbol);
        self.next += 1;
        symbol
    }
}
