//! A model's tokens, as llguidance reads them.

use std::fmt;
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use tokenizer::{Kind, Tokenizer};

use crate::masks::Masks;

/// Longest token in bytes: the trie stores a depth in ten bits. Longer ones are never allowed by a grammar.
const MAX_TOKEN_BYTES: usize = 1000;

/// Most bytes of all tokens: the trie stores the size of a subtree in 22 bits. Real vocabularies have less than half.
const MAX_BYTES: usize = 4_000_000;

/// Limits on what a grammar of a user may cost; llguidance's defaults, except that a request takes a tenth of the memory.
const MAX_LEXER_STATES: usize = 20_000;

/// Most items of a row of the Earley parser, such as the alternatives of a rule.
const MAX_ITEMS: usize = 50_000;

/// Why a vocabulary cannot be constrained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum VocabularyError {
    #[error(
        "the vocabulary names no token that ends generation, so that a text could not end where its grammar does; set the key \
         `tokenizer.ggml.eos_token_id`"
    )]
    NoEnd,
    #[error(
        "the tokens have {found} bytes together, the most that a grammar can constrain is {MAX_BYTES}; this vocabulary works \
         without a grammar only"
    )]
    TooLarge { found: usize },
    #[error("the vocabulary cannot be constrained: {0}")]
    Trie(String),
}

/// A model's tokens, prepared for grammars. This takes up to 0.4 s and some MiB, so make it once per model.
pub struct Vocabulary {
    factory: ParserFactory,
    trie: Arc<dyn llguidance::toktrie::TokenizerEnv + Sync>,
    pub(crate) masks: Masks,
}

impl Vocabulary {
    /// Prepares the tokens of `tokenizer`. Fails if no token ends generation, or there are too many bytes of text.
    pub fn new(tokenizer: &Tokenizer) -> Result<Vocabulary, VocabularyError> {
        let size = u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(tokenizer, id)).collect();
        match words.iter().map(Vec::len).sum() {
            found if found > MAX_BYTES => return Err(VocabularyError::TooLarge { found }),
            _ => {}
        }
        let ids = tokenizer.special_ids();
        let ends: Vec<u32> = ids.end_of_generation.iter().copied().collect();
        // The one that templates end turns with comes first.
        let first = ids.eos().filter(|eos| ends.contains(eos)).or(ends.first().copied());
        let info = TokRxInfo::new(size, first.ok_or(VocabularyError::NoEnd)?);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&ends);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(|error| VocabularyError::Trie(error.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_lexer_states: MAX_LEXER_STATES,
            max_items_in_row: MAX_ITEMS,
            step_max_items: 4 * MAX_ITEMS,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Vocabulary { factory, trie: env, masks: Masks::default() })
    }

    pub(crate) fn factory(&self) -> &ParserFactory {
        &self.factory
    }

    /// The bytes of a token, for a special token its text.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        let trie = self.trie.tok_trie();
        if id as usize >= trie.vocab_size() {
            return &[];
        }
        let bytes = trie.token(id);
        bytes.strip_prefix(&[TokTrie::SPECIAL_TOKEN_MARKER]).unwrap_or(bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.trie.tok_trie().vocab_size()
    }

    pub(crate) fn ends(&self) -> &[u32] {
        self.trie.tok_trie().eos_tokens()
    }

    /// The token with this text, if it is a special token or one that is always found in text.
    pub(crate) fn special(&self, text: &str) -> Option<u32> {
        let trie = self.trie.tok_trie();
        let marked = [&[TokTrie::SPECIAL_TOKEN_MARKER], text.as_bytes()].concat();
        trie.token_id_at_bytes(&marked).or_else(|| trie.token_id_at_bytes(text.as_bytes()))
    }

    /// Some way to write `text` in tokens, the longest first; `None` if the vocabulary lacks a byte.
    pub fn tokenize(&self, text: &[u8]) -> Option<Vec<u32>> {
        let trie = self.trie.tok_trie();
        let (mut ids, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (id, bytes) = trie.prefix_token_id(rest);
            if bytes == 0 || trie.token(id) != rest.get(..bytes)? {
                return None;
            }
            ids.push(id);
            rest = &rest[bytes..];
        }
        Some(ids)
    }
}

/// The bytes of a token in the trie. One without bytes is never allowed.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    let is_special = tokenizer.kind(id).is_some_and(Kind::is_special) || tokenizer.ends_generation(id);
    match bytes {
        bytes if bytes.len() > MAX_TOKEN_BYTES => Vec::new(),
        [] => Vec::new(),
        bytes if is_special => [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat(),
        // The mark of special tokens, which no text has.
        [TokTrie::SPECIAL_TOKEN_MARKER, ..] => Vec::new(),
        bytes => bytes.to_vec(),
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("tokens", &self.len()).finish_non_exhaustive()
    }
}
