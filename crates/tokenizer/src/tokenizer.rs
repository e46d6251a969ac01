//! A file's tokenizer: what its metadata says, checked once.

use std::collections::HashSet;

use gguf::Metadata;

use crate::Error;
use crate::bpe::BytePair;
use crate::finder::TokenFinder;
use crate::model::Model;
use crate::pieces::piece_bytes;
use crate::special::SpecialIds;
use crate::spm::SentencePiece;
use crate::vocab::{ByteStrings, Kind, Vocab, last_of_each_text};

/// Turns text into token ids and back.
pub struct Tokenizer {
    vocab: Vocab,
    ids: SpecialIds,
    pub(crate) model: Model,
    /// By id, the bytes a token stands for.
    pub(crate) pieces: ByteStrings,
    /// Finds the tokens that are tokens in any text.
    pub(crate) user_defined: TokenFinder,
    /// Finds these and the special tokens.
    pub(crate) special: TokenFinder,
    /// Tokens that swallow the white space after them.
    pub(crate) strips_after: HashSet<u32>,
    add_bos: Choice,
    add_eos: Choice,
    pub(crate) add_space_prefix: Choice,
    pre_tokenizer: Option<String>,
}

/// A yes or no, and who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The file says so.
    Stated(bool),
    /// The file says nothing, this is the rule for its kind.
    Default(bool),
}

impl Choice {
    /// The yes or no.
    pub fn value(self) -> bool {
        match self {
            Choice::Stated(value) | Choice::Default(value) => value,
        }
    }

    fn new(stated: Option<bool>, default: bool) -> Choice {
        stated.map_or(Choice::Default(default), Choice::Stated)
    }
}

/// What is worth saying about a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// `SentencePiece` or `byte-level BPE`.
    pub model: &'static str,
    /// The value of `tokenizer.ggml.pre`. SentencePiece does not heed it.
    pub pre_tokenizer: Option<&'a str>,
    /// Whether a prompt gets the BOS token before it, if there is one.
    pub add_bos: Choice,
    /// Whether a prompt gets the EOS token after it, if there is one.
    pub add_eos: Choice,
    /// Whether a space is put before text.
    pub add_space_prefix: Choice,
}

impl Tokenizer {
    /// Reads the tokenizer from a file's metadata.
    ///
    /// Fails when the metadata is inconsistent or the kind of tokenizer is not supported. A special id
    /// outside the vocabulary is only warned of.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, Error> {
        const MODEL: &str = "tokenizer.ggml.model";
        let mut vocab = Vocab::from_metadata(metadata)?;
        let name = metadata.str(MODEL)?.ok_or(Error::Missing { key: MODEL })?;
        let (defaults, is_spm) = match name {
            "llama" => {
                (SpecialIds { bos: Some(1), eos: Some(2), unk: Some(0), ..SpecialIds::default() }, true)
            }
            "gpt2" => (SpecialIds::default(), false),
            other => return Err(Error::UnsupportedModel { found: other.to_owned() }),
        };
        let ids = defaults.complete(metadata, &mut vocab)?;
        let (model, adds_bos_by_default) = if is_spm {
            (Model::SentencePiece(SentencePiece::new(metadata, &vocab, ids.unk)?), true)
        } else {
            let model = BytePair::new(metadata, &vocab)?;
            let adds_bos = model.adds_bos_by_default();
            (Model::BytePair(model), adds_bos)
        };

        let choice = |key, default| metadata.bool(key).map(|stated| Choice::new(stated, default));
        Ok(Tokenizer {
            add_bos: choice("tokenizer.ggml.add_bos_token", adds_bos_by_default)?,
            add_eos: choice("tokenizer.ggml.add_eos_token", false)?,
            add_space_prefix: choice("tokenizer.ggml.add_space_prefix", is_spm)?,
            pre_tokenizer: metadata.str("tokenizer.ggml.pre")?.map(str::to_owned),
            strips_after: strips_after(metadata, &vocab)?,
            user_defined: TokenFinder::new(&vocab, |kind| kind == Kind::UserDefined)?,
            special: TokenFinder::new(&vocab, |kind| kind == Kind::UserDefined || kind.is_special())?,
            pieces: piece_bytes(&vocab, &model),
            vocab,
            ids,
            model,
        })
    }

    /// Number of tokens; ids are below it.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// Bytes of text that a token stands for, at most, so that text of more than `n` times as many has more than `n`
    /// tokens. (But for white space that a token swallows, and bytes that the vocabulary cannot spell.)
    pub fn longest_token(&self) -> usize {
        self.vocab.longest_text()
    }

    /// Ids of the tokens with a task.
    pub fn special_ids(&self) -> &SpecialIds {
        &self.ids
    }

    /// Whether nothing more is to be generated after token `id`.
    pub fn ends_generation(&self, id: u32) -> bool {
        self.ids.end_of_generation.contains(&id)
    }

    /// The text of token `id` as the file writes it (`▁Hello`, `Ġworld`, `<0x0A>`). `None` outside
    /// the vocabulary. See [`Tokenizer::token_bytes`] for what it stands for.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocab.text(id)
    }

    /// What token `id` is for; `None` outside the vocabulary.
    pub fn kind(&self, id: u32) -> Option<Kind> {
        self.vocab.kinds.get(usize::try_from(id).ok()?).copied()
    }

    /// Ids and texts of the tokens that are found in text only when special tokens are parsed, in order;
    /// of those with the same text the last.
    pub fn special_tokens(&self) -> impl Iterator<Item = (u32, &str)> {
        let special = self.vocab.iter().filter(|(_, text, kind)| kind.is_special() && !text.is_empty());
        let mut special = last_of_each_text(special.map(|(id, text, _)| (text, id)).collect());
        special.sort_unstable_by_key(|&(_, id)| id);
        special.into_iter().map(|(text, id)| (id, text))
    }

    /// `ids` with BOS before them where the file says so and it is not there yet: a prompt.
    pub fn with_bos(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos_to_add().filter(|bos| ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        ids
    }

    /// Whether a prompt gets a BOS token before it.
    pub fn adds_bos(&self) -> bool {
        self.bos_to_add().is_some()
    }

    /// Whether a prompt gets an EOS token after it, which only a file can ask for.
    pub fn adds_eos(&self) -> bool {
        self.eos_to_add().is_some()
    }

    /// What is worth saying about this tokenizer.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            model: match self.model {
                Model::SentencePiece(_) => "SentencePiece",
                Model::BytePair(_) => "byte-level BPE",
            },
            pre_tokenizer: self.pre_tokenizer.as_deref(),
            add_bos: self.add_bos,
            add_eos: self.add_eos,
            add_space_prefix: self.add_space_prefix,
        }
    }

    pub(crate) fn bos_to_add(&self) -> Option<u32> {
        self.ids.bos.filter(|_| self.add_bos.value())
    }

    pub(crate) fn eos_to_add(&self) -> Option<u32> {
        self.ids.eos.filter(|_| self.add_eos.value())
    }

    /// Whether a text loses the space that was put before it.
    pub(crate) fn drops_leading_space(&self) -> bool {
        matches!(self.model, Model::SentencePiece(_)) && self.add_space_prefix.value()
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("facts", &self.facts())
            .field("vocab_size", &self.vocab_size())
            .field("special_ids", &self.ids)
            .finish_non_exhaustive()
    }
}

/// The tokens of Phi-3 swallow the white space after them, except a few. Files do not say so:
/// llama.cpp goes by the model's name.
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
