//! A file's tokenizer.

use std::collections::HashSet;

use gguf::Metadata;

use crate::Error;
use crate::alphabet::Alphabet;
use crate::bpe::BytePair;
use crate::finder::TokenFinder;
use crate::pretokenizers::{Bos, GEMMA_4};
use crate::special::SpecialIds;
use crate::spm::SentencePiece;
use crate::unigram::Unigram;
use crate::vocab::{ByteStrings, Kind, SPACE, Vocab, last_of_each_text, parse_byte};
use crate::wordpiece::WordPiece;

pub(crate) enum Model {
    SentencePiece(SentencePiece),
    BytePair(BytePair),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl Model {
    fn name(&self) -> &'static str {
        match self {
            Model::SentencePiece(_) => "SentencePiece",
            Model::BytePair(model) if model.row().characters => "BPE",
            Model::BytePair(_) => "byte-level BPE",
            Model::WordPiece(_) => "WordPiece",
            Model::Unigram(_) => "unigram",
        }
    }

    /// Whether encoding drops or replaces some characters.
    fn normalizes(&self) -> bool {
        matches!(self, Model::WordPiece(_) | Model::Unigram(_))
    }

    fn is_byte_level(&self) -> bool {
        matches!(self, Model::BytePair(model) if !model.row().characters)
    }
}

fn token_bytes(vocab: &Vocab, model: &Model) -> ByteStrings {
    let alphabet = Alphabet::new();
    let mut pieces = ByteStrings::with_capacity(vocab.len());
    for (_, text, kind) in vocab.iter() {
        match kind {
            Kind::Control | Kind::Unknown | Kind::UserDefined => pieces.push(text.as_bytes()),
            Kind::Byte => pieces.push(parse_byte(text).as_slice()),
            Kind::Normal if model.is_byte_level() => match alphabet.decode(text) {
                Some(bytes) => pieces.push(&bytes),
                None => pieces.push(text.as_bytes()),
            },
            Kind::Normal => pieces.push(text.replace(SPACE, " ").as_bytes()),
            // As in llama.cpp, unused tokens have no bytes.
            Kind::Unused | Kind::Undefined => pieces.push(&[]),
        }
    }
    pieces
}

/// Encodes text as token ids and decodes ids.
pub struct Tokenizer {
    vocab: Vocab,
    ids: SpecialIds,
    pub(crate) model: Model,
    pub(crate) pieces: ByteStrings,
    pub(crate) user_defined: TokenFinder,
    /// Finds user-defined and special tokens.
    pub(crate) special: TokenFinder,
    pub(crate) strips: Strips,
    facts: Facts,
}

/// A setting of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// From the file.
    Stated(bool),
    /// Not in the file: the default of the tokenizer's model.
    Default(bool),
}

impl Choice {
    /// The setting.
    pub fn value(self) -> bool {
        match self {
            Choice::Stated(value) | Choice::Default(value) => value,
        }
    }
}

/// Properties of a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `SentencePiece`, `byte-level BPE`, `BPE` (of characters), `WordPiece` or `unigram`.
    pub model: &'static str,
    /// The pre-tokenizer of BPE; for others the value of `tokenizer.ggml.pre`, which they ignore.
    pub pre_tokenizer: Option<String>,
    /// Whether a prompt starts with the BOS token, if there is one.
    pub add_bos: Choice,
    /// Whether a prompt ends with the EOS token, if there is one.
    pub add_eos: Choice,
    /// Whether a prompt ends with the SEP token, if there is one, and SEP separates texts. With BPE it only separates.
    pub add_sep: Choice,
    /// Whether a space is inserted before text.
    pub add_space_prefix: Choice,
    /// Whether encoding drops or replaces some characters, so that decoding does not give back the text.
    pub normalizes: bool,
}

impl Tokenizer {
    /// Reads the tokenizer from a file's metadata.
    ///
    /// Fails if the metadata is inconsistent or the kind of tokenizer is not supported. A special id outside the
    /// vocabulary only causes a warning.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, Error> {
        const MODEL: &str = "tokenizer.ggml.model";
        let mut vocab = Vocab::from_metadata(metadata)?;
        let name = metadata.str(MODEL)?.ok_or(Error::Missing { key: MODEL })?;
        let defaults: &[_] = match name {
            "llama" => &[("bos", 1), ("eos", 2), ("unk", 0)],
            "gpt2" | "gemma4" => &[],
            "bert" => &[("bos", 101), ("unk", 100), ("sep", 102), ("pad", 0), ("mask", 103)],
            "t5" => &[("eos", 1), ("unk", 2), ("pad", 0)],
            other => return Err(Error::UnsupportedModel { found: other.to_owned() }),
        };
        let choice = |key, default| {
            let stated = metadata.bool(key)?;
            Ok::<_, Error>(stated.map_or(Choice::Default(default), Choice::Stated))
        };
        let add_space_prefix = choice("tokenizer.ggml.add_space_prefix", name == "llama")?;
        let pre_tokenizer = match name {
            "gemma4" => Some(GEMMA_4),
            _ => metadata.str("tokenizer.ggml.pre")?,
        };

        let ids = SpecialIds::new(defaults, metadata, &mut vocab)?;
        let unknown = ids.roles.get("unk").copied();
        let model = match name {
            "llama" => Model::SentencePiece(SentencePiece::new(metadata, &vocab, unknown)?),
            "bert" => Model::WordPiece(WordPiece::new(metadata, &vocab, unknown)?),
            "t5" => {
                let space_before = add_space_prefix.value();
                Model::Unigram(Unigram::new(metadata, &vocab, unknown, space_before)?)
            }
            _ => Model::BytePair(BytePair::new(metadata, &vocab, pre_tokenizer)?),
        };
        let (bos, sep) = match &model {
            Model::SentencePiece(_) => (Bos::Default, false),
            Model::BytePair(model) => (model.row().bos, model.row().adds_sep),
            Model::WordPiece(_) => (Bos::Always, true),
            Model::Unigram(_) => (Bos::Stated, false),
        };
        let facts = Facts {
            model: model.name(),
            add_bos: match bos {
                Bos::Always => Choice::Default(true),
                _ => choice("tokenizer.ggml.add_bos_token", bos == Bos::Default)?,
            },
            add_eos: choice("tokenizer.ggml.add_eos_token", name == "t5")?,
            add_sep: choice("tokenizer.ggml.add_sep_token", sep)?,
            add_space_prefix,
            pre_tokenizer: pre_tokenizer.map(str::to_owned),
            normalizes: model.normalizes(),
        };
        Ok(Tokenizer {
            strips: Strips::new(metadata, &vocab)?,
            user_defined: TokenFinder::new(&vocab, |kind| kind == Kind::UserDefined)?,
            special: TokenFinder::new(&vocab, |kind| kind == Kind::UserDefined || kind.is_special())?,
            pieces: token_bytes(&vocab, &model),
            vocab,
            ids,
            model,
            facts,
        })
    }

    /// Number of tokens; ids are below it.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// Length of the longest token in bytes: text of more than `n` times as many bytes has more than `n` tokens, unless
    /// a token drops white space beside it, or the vocabulary lacks bytes. `usize::MAX` if the tokenizer normalises.
    pub fn longest_token(&self) -> usize {
        if self.facts.normalizes {
            return usize::MAX;
        }
        self.vocab.longest_text()
    }

    /// Ids of the tokens with a role.
    pub fn special_ids(&self) -> &SpecialIds {
        &self.ids
    }

    /// Whether token `id` ends generation.
    pub fn ends_generation(&self, id: u32) -> bool {
        self.ids.end_of_generation.contains(&id)
    }

    /// The text of token `id` as in the file (`▁Hello`, `Ġworld`, `<0x0A>`); `None` outside the vocabulary. See
    /// [`Tokenizer::token_bytes`] for its meaning.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocab.text(id)
    }

    /// The kind of token `id`; `None` outside the vocabulary.
    pub fn kind(&self, id: u32) -> Option<Kind> {
        self.vocab.kinds.get(usize::try_from(id).ok()?).copied()
    }

    /// Whether token `id` drops white space before and after it.
    pub fn strips(&self, id: u32) -> (bool, bool) {
        (self.strips.before.contains(&id), self.strips.after.contains(&id))
    }

    /// Ids and texts of the special tokens, in order; the last of those with the same text.
    pub fn special_tokens(&self) -> impl Iterator<Item = (u32, &str)> {
        let special = self.vocab.iter().filter(|(_, text, kind)| kind.is_special() && !text.is_empty());
        let mut special = last_of_each_text(special.map(|(id, text, _)| (text, id)).collect());
        special.sort_unstable_by_key(|&(_, id)| id);
        special.into_iter().map(|(text, id)| (id, text))
    }

    /// `ids` of a prompt, preceded by BOS if the file asks for it and `ids` does not start with it.
    pub fn with_bos(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos_to_add().filter(|bos| ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        ids
    }

    /// `ids` of a whole text, between the tokens that the file asks for before and after it.
    pub fn with_ends(&self, ids: Vec<u32>) -> Vec<u32> {
        let mut ids = self.with_bos(ids);
        ids.extend(self.eos_to_add().filter(|eos| ids.last() != Some(eos)));
        ids
    }

    /// Properties of this tokenizer.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The BOS token, if a prompt starts with it.
    pub fn bos_to_add(&self) -> Option<u32> {
        self.ids.bos().filter(|_| self.facts.add_bos.value())
    }

    /// The EOS token, if a prompt ends with it; for WordPiece the SEP token.
    pub fn eos_to_add(&self) -> Option<u32> {
        if let Model::WordPiece(_) = self.model {
            return self.ids.roles.get("sep").copied();
        }
        self.ids.eos().filter(|_| self.facts.add_eos.value())
    }

    /// Whether encoding inserts a space before text, which decoding removes.
    pub(crate) fn inserts_space(&self) -> bool {
        !matches!(self.model, Model::BytePair(_)) && self.facts.add_space_prefix.value()
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("facts", &self.facts)
            .field("ids", &self.ids)
            .finish_non_exhaustive()
    }
}

/// Tokens beside which white space is dropped. Files do not say so; like llama.cpp, go by names.
pub(crate) struct Strips {
    pub(crate) before: HashSet<u32>,
    pub(crate) after: HashSet<u32>,
}

impl Strips {
    fn new(metadata: &Metadata, vocab: &Vocab) -> Result<Strips, Error> {
        let name = metadata.str("general.name")?.unwrap_or_default().to_lowercase();
        let pre = metadata.str("tokenizer.ggml.pre")?.unwrap_or_default();
        let architecture = metadata.str("general.architecture")?.unwrap_or_default();
        let has = |name: &str, parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let tokens = |which: &dyn Fn(&str, Kind) -> bool| {
            vocab.iter().filter(|(_, text, kind)| which(text, *kind)).map(|(id, _, _)| id).collect()
        };
        let mut strips = Strips { before: HashSet::new(), after: HashSet::new() };
        if has(pre, &["jina-v2-de", "jina-v2-es", "jina-v2-code"])
            || has(architecture, &["nomic-bert-moe", "jina-bert-v3"])
        {
            strips.before = tokens(&|text, _| text == "<mask>");
        } else if has(&name, &["phi-3", "phi3"]) {
            strips.after = tokens(&|text, kind| {
                let is_found_in_text = kind.is_special() || kind == Kind::UserDefined || text == "</s>";
                is_found_in_text && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>")
            });
        } else if has(&name, &["modern-bert"]) {
            strips.before = tokens(&|text, _| text == "[MASK]");
        }
        Ok(strips)
    }
}
