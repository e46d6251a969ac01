//! A file's tokenizer.

use std::collections::HashSet;

use gguf::Metadata;

use crate::Error;
use crate::bpe::BytePair;
use crate::finder::TokenFinder;
use crate::model::{Model, token_bytes};
use crate::special::SpecialIds;
use crate::spm::SentencePiece;
use crate::vocab::{ByteStrings, Kind, Vocab, last_of_each_text};

/// Encodes text as token ids and decodes ids.
pub struct Tokenizer {
    vocab: Vocab,
    ids: SpecialIds,
    pub(crate) model: Model,
    /// The bytes of each token, by id.
    pub(crate) pieces: ByteStrings,
    pub(crate) user_defined: TokenFinder,
    /// Finds user-defined and special tokens.
    pub(crate) special: TokenFinder,
    /// Tokens after which white space is dropped.
    pub(crate) strips_after: HashSet<u32>,
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
    /// `SentencePiece` or `byte-level BPE`.
    pub model: &'static str,
    /// The value of `tokenizer.ggml.pre`, which SentencePiece ignores.
    pub pre_tokenizer: Option<String>,
    /// Whether a prompt starts with the BOS token, if there is one.
    pub add_bos: Choice,
    /// Whether a prompt ends with the EOS token, if there is one.
    pub add_eos: Choice,
    /// Whether a space is inserted before text.
    pub add_space_prefix: Choice,
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
        let (defaults, is_spm): (&[_], bool) = match name {
            "llama" => (&[("bos", 1), ("eos", 2), ("unk", 0)], true),
            "gpt2" => (&[], false),
            other => return Err(Error::UnsupportedModel { found: other.to_owned() }),
        };
        let ids = SpecialIds::new(defaults, metadata, &mut vocab)?;
        let (model, adds_bos_by_default) = if is_spm {
            let unknown = ids.roles.get("unk").copied();
            (Model::SentencePiece(SentencePiece::new(metadata, &vocab, unknown)?), true)
        } else {
            let model = BytePair::new(metadata, &vocab)?;
            let adds_bos = model.pre_tokenizer.row.adds_bos;
            (Model::BytePair(model), adds_bos)
        };

        let choice = |key, default| {
            let stated = metadata.bool(key)?;
            Ok::<_, Error>(stated.map_or(Choice::Default(default), Choice::Stated))
        };
        let facts = Facts {
            model: if is_spm { "SentencePiece" } else { "byte-level BPE" },
            add_bos: choice("tokenizer.ggml.add_bos_token", adds_bos_by_default)?,
            add_eos: choice("tokenizer.ggml.add_eos_token", false)?,
            add_space_prefix: choice("tokenizer.ggml.add_space_prefix", is_spm)?,
            pre_tokenizer: metadata.str("tokenizer.ggml.pre")?.map(str::to_owned),
        };
        Ok(Tokenizer {
            strips_after: strips_after(metadata, &vocab)?,
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
    /// a token drops white space after it, or the vocabulary lacks bytes.
    pub fn longest_token(&self) -> usize {
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

    /// Properties of this tokenizer.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The BOS token, if a prompt starts with it.
    pub fn bos_to_add(&self) -> Option<u32> {
        self.ids.bos().filter(|_| self.facts.add_bos.value())
    }

    /// The EOS token, if a prompt ends with it.
    pub fn eos_to_add(&self) -> Option<u32> {
        self.ids.eos().filter(|_| self.facts.add_eos.value())
    }

    /// Whether encoding inserts a space before text, which decoding removes.
    pub(crate) fn inserts_space(&self) -> bool {
        matches!(self.model, Model::SentencePiece(_)) && self.facts.add_space_prefix.value()
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

/// In Phi-3 white space after most special tokens is dropped. Files do not say so; like llama.cpp, go by the model's
/// name.
fn strips_after(metadata: &Metadata, vocab: &Vocab) -> Result<HashSet<u32>, Error> {
    let name = metadata.str("general.name")?.unwrap_or_default().to_lowercase();
    if !name.contains("phi-3") && !name.contains("phi3") {
        return Ok(HashSet::new());
    }
    let strips = |text: &str, kind: Kind| {
        let found_in_text = kind.is_special() || kind == Kind::UserDefined || text == "</s>";
        found_in_text && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>")
    };
    Ok(vocab.iter().filter(|(_, text, kind)| strips(text, *kind)).map(|(id, _, _)| id).collect())
}
