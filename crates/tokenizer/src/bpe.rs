//! Byte-level BPE: the bytes of a word are merged by rules, the first rule first.
//!
//! Source: llama.cpp's `llm_tokenizer_bpe`. Pieces are stored as bytes instead of GPT-2's byte alphabet, so that text
//! needs no conversion.

use gguf::Metadata;
use hashbrown::HashMap;

use crate::Error;
use crate::alphabet::Alphabet;
use crate::merge::{MAX_WORD, Merger, Symbol};
use crate::pretokenize::{Matching, PreTokenizer};
use crate::vocab::{MAX_STRINGS, Pieces, Vocab, strings};

pub(crate) struct BytePair {
    pub(crate) pre_tokenizer: PreTokenizer,
    /// Symbols by their bytes: tokens, followed by intermediate results of merges.
    symbols: Pieces,
    bytes: Box<[u32; 256]>,
    /// Rules: from two symbols to rank and merged symbol.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// Symbols from this number on are not tokens.
    n_tokens: u32,
}

impl BytePair {
    pub(crate) fn new(metadata: &Metadata, vocab: &Vocab) -> Result<BytePair, Error> {
        const MERGES: &str = "tokenizer.ggml.merges";
        let pre_tokenizer = match metadata.str("tokenizer.ggml.pre")? {
            None => return Err(Error::MissingPreTokenizer),
            Some(name) => PreTokenizer::from_name(name)
                .ok_or_else(|| Error::UnsupportedPreTokenizer { found: name.to_owned() })??,
        };
        let rules = strings(metadata, MERGES)?;

        let alphabet = Alphabet::new();
        // At most `MAX_STRINGS`.
        let n_tokens = u32::try_from(vocab.len()).unwrap_or(u32::MAX);
        let mut table = SymbolTable { symbols: Pieces::with_capacity(vocab.len()), next: n_tokens };
        for (id, text, kind) in vocab.iter() {
            if kind.is_mergeable() && !text.is_empty() {
                // Merging bytes cannot produce text outside the alphabet.
                if let Some(bytes) = alphabet.decode(text) {
                    table.symbols.insert(&bytes, id);
                }
            }
        }
        let bytes = Box::new(std::array::from_fn(|byte| table.symbol(&[byte as u8])));

        let mut merges = HashMap::with_capacity(rules.len());
        for (index, (rule, rank)) in rules.iter().zip(0u32..).enumerate() {
            let bad = || Error::BadMerge { index, found: rule.clone() };
            let (left, right) = rule.split_once(' ').ok_or_else(bad)?;
            if left.is_empty() || right.is_empty() || right.contains(' ') {
                return Err(bad());
            }
            if let (Some(mut left), Some(right)) = (alphabet.decode(left), alphabet.decode(right)) {
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
        Ok(BytePair { pre_tokenizer, symbols: table.symbols, bytes, merges, n_tokens })
    }

    pub(crate) fn encode(
        &self,
        text: &str,
        matching: &mut Matching,
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) {
        let mut encode = |word: &str| {
            word.as_bytes().chunks(MAX_WORD).for_each(|word| self.encode_word(word, merger, ids));
        };
        self.pre_tokenizer.words(text, matching, &mut encode);
    }

    fn encode_word(&self, word: &[u8], merger: &mut Merger, ids: &mut Vec<u32>) {
        if self.pre_tokenizer.row.whole_words
            && let Some(id) = self.symbols.get(word)
            && id < self.n_tokens
        {
            ids.push(id);
            return;
        }
        for (&byte, end) in word.iter().zip(1..) {
            merger.push(self.bytes[usize::from(byte)], end);
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

/// Numbers symbols that are not tokens.
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
